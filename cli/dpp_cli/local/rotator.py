"""The part of the local stack that rotates its logs while it is up: `python -m dpp_cli.local.rotator FOLDER`.

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
"""Interval between passes: how long a log may exceed its size."""


def watch(state_dir: Path, rules: LogRules) -> None:
    """Make passes until the folder disappears; a repeated warning is printed once."""
    printed: list[str] = []
    while state_dir.is_dir():
        warnings = tidy(state_dir, rules, datetime.now(UTC)).warnings
        for warning in warnings:
            if warning not in printed:
                print(f"{datetime.now(rules.zone).isoformat(timespec='seconds')} {warning}", flush=True)
        printed = warnings
        time.sleep(PASS_SECONDS)


if __name__ == "__main__":
    watch(Path(sys.argv[1]), LogRules.of(os.environ))
