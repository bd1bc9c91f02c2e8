"""The limits of one tick of a role, in items and in time."""

import time
from collections.abc import Iterator

LIMIT = 100
TIME_LIMIT_SECONDS = 20.0


def rounds(limit: int = LIMIT, seconds: float = TIME_LIMIT_SECONDS) -> Iterator[int]:
    """Yield up to `limit` times within `seconds`; the rest of the work waits for the next tick."""
    deadline = time.monotonic() + seconds
    for turn in range(limit):
        if time.monotonic() > deadline:
            return
        yield turn
