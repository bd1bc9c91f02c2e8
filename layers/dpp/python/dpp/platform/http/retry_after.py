"""Reads `Retry-After` (RFC 9110, 10.2.3): seconds, or a date."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MAX_DIGITS = 9
"""A longer number is no pause that anybody means."""


def retry_after_seconds(value: str, now: datetime) -> float | None:
    """The pause in seconds, 0 for a date in the past; None if `value` is neither, or beyond what a date can hold.

    The header comes from another system, so nothing that it contains raises.
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) <= _MAX_DIGITS else None
    try:
        until = parsedate_to_datetime(text)
        zoned = until if until.tzinfo else until.replace(tzinfo=UTC)
        return max(0.0, (zoned - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # OverflowError: a year of 21 digits
        return None
