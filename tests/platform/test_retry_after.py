"""`Retry-After` of other systems, read without trusting it (RFC 9110, 10.2.3)."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.platform.http.retry_after import retry_after_seconds

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 12:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 12:00:30", 30.0),
        ("9" * 21, None),
        (f"Wed, 21 Oct {'9' * 21} 07:28:00 GMT", None),
        ("", None),
        ("1.5", None),
        ("-1", None),
        ("٣", None),
        ("soon", None),
    ],
)
def test_seconds_or_a_date_and_nothing_else(value: str, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOON) == seconds


@given(st.text(max_size=40) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,30} Jan \d{1,30} \d{1,9}:\d\d:\d\d [+-]?\d{1,20}"))
def test_no_value_raises(value: str) -> None:
    seconds = retry_after_seconds(value, NOON)
    assert seconds is None or seconds >= 0
