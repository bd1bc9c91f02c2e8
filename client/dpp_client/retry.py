"""Retries: exponential backoff with full jitter, at least the pause that the server asks for."""

import random
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

from dpp_client.errors import DppError

_FIRST_SECONDS = 0.25
_LONGEST_SECONDS = 8.0
_MAX_DIGITS = 9

type OnRetry = Callable[[DppError, float], None]
"""Called with an error that will be retried, and the pause in seconds."""


class Clock:
    """The time that passes, which a change of the machine's clock doesn't touch. Tests pass another."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let them pass."""
        time.sleep(seconds)

    def jitter(self) -> float:
        """A number from 0 to 1."""
        return random.random()  # noqa: S311 - it spreads clients out, and guards nothing


def persist[Answer](
    attempt: Callable[[], Answer], *, until: float, clock: Clock, on_retry: OnRetry | None = None
) -> Answer:
    """Make the same call until it gives an answer, or an error that lasts. No try begins after `until`.

    Raises the last DppError. Where the server wants a longer pause than is left, it is raised at once.
    """
    tries = 0
    while True:
        try:
            return attempt()
        except DppError as error:
            pause = pause_seconds(error.retry_after, tries, clock.jitter())
            if not error.temporary or clock.now() + pause > until:
                raise
            if on_retry is not None:
                on_retry(error, pause)
        clock.sleep(pause)
        tries += 1


def pause_seconds(retry_after: float | None, tries: int, jitter: float) -> float:
    """Return the pause after a failure: the server's pause plus jittered backoff, so that clients spread out."""
    backoff = jitter * min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(tries, 10))
    return backoff + (retry_after or 0.0)


def retry_after_seconds(value: str | None, date: str | None) -> float | None:
    """The seconds of a `Retry-After` (RFC 9110), a time of day by the `Date` of the same answer; None for nonsense."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MAX_DIGITS else None
    try:
        at, server_time = parsedate_to_datetime(text), parsedate_to_datetime(date or "")
        zoned = [one if one.tzinfo else one.replace(tzinfo=UTC) for one in (at, server_time)]
        return max(0.0, (zoned[0] - zoned[1]).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # OverflowError: a year of 21 digits
        return None
