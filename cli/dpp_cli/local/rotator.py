"""The part of the local stack that looks after its logs while it is up: `python -m dpp_cli.local.rotator FOLDER`.

Started by `up` and ended by `down`, like the others; no part needs it. Killed at any point it leaves nothing undone
that the next pass doesn't do (rotation.py). It ends by itself when its folder is gone.
"""

import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from dpp_cli.local.rotation import LogRules, tidy

PASS_SECONDS = 5.0
"""How long a log may grow beyond its size, and the events of a day that is over may wait."""


def watch(state_dir: Path, rules: LogRules) -> None:
    """Pass after pass, for as long as the folder is there; a warning is written when it is news."""
    told: list[str] = []
    while state_dir.is_dir():
        warnings = tidy(state_dir, rules, datetime.now(UTC)).warnings
        for warning in warnings:
            if warning not in told:
                print(f"{datetime.now(rules.zone).isoformat(timespec='seconds')} {warning}", flush=True)
        told = warnings
        time.sleep(PASS_SECONDS)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), LogRules.of(os.environ))
