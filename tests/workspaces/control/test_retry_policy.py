"""Retries and backoff (003 §10; WS-14)."""

from hypothesis import given
from hypothesis import strategies as st

from dpp.workspaces.control.retry_policy import MAX_BACKOFF_SECONDS, MAX_RETRY, backoff_seconds, is_exhausted


def test_backoff_doubles_up_to_five_minutes() -> None:
    assert [backoff_seconds(n) for n in range(12)] == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@given(st.integers(min_value=-5, max_value=10_000))
def test_backoff_never_decreases_and_is_bounded(failures: int) -> None:
    assert 0 <= backoff_seconds(failures) <= backoff_seconds(failures + 1) <= MAX_BACKOFF_SECONDS


def test_operation_is_exhausted_after_three_failures() -> None:
    """003 §10."""
    assert [is_exhausted(n) for n in range(5)] == [False, False, False, True, True]
    assert MAX_RETRY == 3
