"""The client's pauses: the server's Retry-After, read as RFC 9110 has it, and a bounded bit more (RUN-14)."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp_client.retry import pause_seconds, retry_after_seconds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        ("30", None, 30.0),
        (" 0 ", None, 0.0),
        ("1.5", None, None),
        ("-1", None, None),
        ("٣", None, None),
        ("9" * 5_000, None, None),
        ("9" * 21, None, None),
        (f"Wed, 21 Oct {'9' * 21} 07:28:00 GMT", format_datetime(NOON, usegmt=True), None),
        ("Thu, 01 Jan 2026 12:00:30 GMT", f"Wed, 21 Oct {'9' * 21} 07:28:00 GMT", None),
        (None, None, None),
        ("Thu, 01 Jan 2026 12:00:30 GMT", format_datetime(NOON, usegmt=True), 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", format_datetime(NOON, usegmt=True), 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", None, None),
    ],
)
def test_retry_after_is_read_as_it_is_written(value: str | None, date: str | None, seconds: float | None) -> None:
    """RFC 9110: seconds, or a time, which only the clock of who wrote it is held against."""
    assert retry_after_seconds(value, date) == seconds


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_retry_after_breaks_the_client(value: str, date: str) -> None:
    seconds = retry_after_seconds(value, date)
    assert seconds is None or seconds >= 0


@given(st.none() | st.floats(0, 1e9), st.integers(0, 10_000), st.floats(0, 1))
def test_a_pause_is_what_was_asked_for_and_a_bounded_bit_more(
    retry_after: float | None, tries: int, jitter: float
) -> None:
    asked = retry_after or 0.0
    assert asked <= pause_seconds(retry_after, tries, jitter) <= asked + 8.0
