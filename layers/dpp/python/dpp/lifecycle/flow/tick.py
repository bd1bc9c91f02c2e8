"""How long and how much one firing of a role works: bounded in time and in items."""

import time
from collections.abc import Iterator

LIMIT = 100
TIME_LIMIT_SECONDS = 20.0


def rounds(limit: int = LIMIT, seconds: float = TIME_LIMIT_SECONDS) -> Iterator[int]:
    """So many rounds, until the time is over; what is left is the next firing's."""
    deadline = time.monotonic() + seconds
    for turn in range(limit):
        if time.monotonic() > deadline:
            return
        yield turn
