"""Writes the committed document: `python -m dpp_cli.docs.openapi`."""

import sys

from dpp_cli.docs.openapi import write
from dpp_cli.paths import OPENAPI_DOCUMENT, ROOT

if __name__ == "__main__":
    write()
    sys.stdout.write(f"{OPENAPI_DOCUMENT.relative_to(ROOT)} written\n")
