"""The retry policy of publisher and consumer (AUTH-8)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.auth_errors.outbox.retry_policy import LADDER_SECONDS, Dead, FailureKind, Retry, RetryPolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COUNTS = st.integers(0, 1_200)


def test_delays_are_10s_1min_10min() -> None:
    policy = RetryPolicy(max_retries=5)
    found = [policy.after_failure(count, NOW) for count in range(6)]
    delays = [one.delay_seconds if isinstance(one, Retry) else None for one in found]
    assert delays == [10, 60, 600, 600, 600, None]
    assert found[-1] == Dead(6)


@given(st.integers(0, 1_000), COUNTS, st.sampled_from(FailureKind))
def test_dead_only_after_the_last_retry(most: int, count: int, fault: FailureKind) -> None:
    decided = RetryPolicy(most).after_failure(count, NOW, fault)
    if fault is FailureKind.PERMANENT:
        assert decided == Dead(count + 1)
    elif fault is FailureKind.OUTAGE:
        assert isinstance(decided, Retry)
        assert decided.retry_count <= most
    else:
        assert isinstance(decided, Dead) == (count + 1 > most)
        assert decided.retry_count == count + 1


@given(st.integers(1, 1_000), COUNTS, st.integers(-(10**9), 10**9))
def test_retry_time_is_now_plus_the_delay(most: int, count: int, shift: int) -> None:
    at = NOW + timedelta(seconds=shift)
    decided = RetryPolicy(most).after_failure(count, at)
    if isinstance(decided, Retry):
        assert decided.delay_seconds in LADDER_SECONDS
        assert decided.next_retry_at == at + timedelta(seconds=decided.delay_seconds)


@given(COUNTS, COUNTS)
def test_later_failure_never_waits_less(first: int, second: int) -> None:
    policy = RetryPolicy(1_000)
    one, other = (policy.after_failure(count, NOW) for count in sorted((first, second)))
    if isinstance(one, Retry) and isinstance(other, Retry):
        assert one.delay_seconds <= other.delay_seconds


def test_policy_is_deterministic() -> None:
    assert RetryPolicy().after_failure(2, NOW) == RetryPolicy().after_failure(2, NOW)


@pytest.mark.parametrize("most", [-1, 1_001])
def test_invalid_policy_is_rejected(most: int) -> None:
    with pytest.raises(ValueError, match="max_retries"):
        RetryPolicy(most)
