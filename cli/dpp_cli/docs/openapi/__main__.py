"""Writes the committed document: `python -m dpp_cli.docs.openapi`."""

import sys

from dpp_cli.docs.openapi import DOCUMENT, write
from dpp_cli.paths import ROOT

if __name__ == "__main__":
    write()
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)} written\n")
