"""How often and how soon (003 §10; WS-14)."""

from hypothesis import given
from hypothesis import strategies as st

from dpp.workspaces.control.retry_policy import MAX_BACKOFF_SECONDS, MAX_RETRY, backoff_seconds, is_exhausted


def test_the_ladder_is_the_documents() -> None:
    """1 s → 2 s → 4 s → 8 s …, five minutes at most."""
    assert [backoff_seconds(n) for n in range(12)] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@given(st.integers(min_value=-5, max_value=10_000))
def test_no_number_of_failures_waits_longer_than_five_minutes_or_less_than_before(failures: int) -> None:
    """However long an outage lasts."""
    assert 0 <= backoff_seconds(failures) <= backoff_seconds(failures + 1) <= MAX_BACKOFF_SECONDS


def test_an_operation_is_tried_three_times() -> None:
    """003 §10: at once, three times."""
    assert [is_exhausted(n) for n in range(5)] == [False, False, False, True, True]
    assert MAX_RETRY == 3
