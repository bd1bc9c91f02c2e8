"""How often a step is tried again, and how long is waited (003 §10; WS-14)."""

MAX_RETRY = 3
"""An operation that failed so often is not tried again (003 §10): its workspace is in ERROR until somebody looks."""

_FIRST_SECONDS = 1
MAX_BACKOFF_SECONDS = 300
_DOUBLINGS = 9  # 2 ** 9 seconds is past the five minutes already

RESTART_WINDOW_SECONDS = 600
"""A container that ran so long and then ended is started anew at once; one that ended sooner waits."""


def backoff_seconds(failures: int) -> int:
    """How long to wait after so many failures in a row: 1 s, 2 s, 4 s … five minutes at most; 0 for none."""
    if failures <= 0:
        return 0
    return min(MAX_BACKOFF_SECONDS, _FIRST_SECONDS << min(failures - 1, _DOUBLINGS))


def is_exhausted(retry_count: int) -> bool:
    """True when an operation has failed as often as it may."""
    return retry_count >= MAX_RETRY
