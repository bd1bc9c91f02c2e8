"""The number of retries of an operation, and the backoff between them (003 §10; WS-14)."""

MAX_RETRY = 3
"""After so many failures an operation is not retried: its workspace is in ERROR until an operator acts (003 §10)."""

_FIRST_SECONDS = 1
MAX_BACKOFF_SECONDS = 300
_DOUBLINGS = 9  # 2 ** 9 seconds exceed the maximum

RESTART_WINDOW_SECONDS = 600
"""A container that ends after this time is restarted at once; one that ends sooner, after a backoff."""


def backoff_seconds(failures: int) -> int:
    """The wait after consecutive failures: 1 s, 2 s, 4 s … at most five minutes; 0 after none."""
    if failures <= 0:
        return 0
    return min(MAX_BACKOFF_SECONDS, _FIRST_SECONDS << min(failures - 1, _DOUBLINGS))


def is_exhausted(retry_count: int) -> bool:
    """True if an operation has failed as often as it may."""
    return retry_count >= MAX_RETRY
