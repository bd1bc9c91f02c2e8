"""Contradictory timings raise ValueError."""

import pytest

from dpp.platform.aws import clients
from dpp.tickets.config import ReaperSettings
from dpp_cdk.functions.table import AUTH_ERRORS_CONSUME, AUTH_ERRORS_PUBLISH, FUNCTIONS, HEALTH, OPS_CYCLE
from dpp_cdk.settings import timings
from dpp_cdk.settings.timings import (
    DeployTiming,
    LeaseTiming,
    OperatorTiming,
    QueueTiming,
    RequestTiming,
    ScheduleTiming,
)

_QUEUES = [value for value in vars(timings).values() if isinstance(value, QueueTiming)]


def test_visibility_below_the_functions_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="become visible"):
        QueueTiming(timeout_seconds=121, visibility_seconds=120, max_receives=3)


def test_visibility_below_six_timeouts_needs_a_reason() -> None:
    """AWS recommends six; RUN-15 requires one."""
    with pytest.raises(ValueError, match="set short_because"):
        QueueTiming(timeout_seconds=20, visibility_seconds=119, max_receives=3)
    QueueTiming(timeout_seconds=20, visibility_seconds=120, max_receives=3)


def test_a_short_visibility_needs_a_batch_of_one() -> None:
    with pytest.raises(ValueError, match="behind another"):
        QueueTiming(timeout_seconds=20, visibility_seconds=60, max_receives=3, batch_size=2, short_because="a reason")


def test_a_single_failure_makes_no_dead_letter() -> None:
    with pytest.raises(ValueError, match="single failure"):
        QueueTiming(timeout_seconds=1, visibility_seconds=6, max_receives=1)


def test_a_message_is_kept_until_a_retry() -> None:
    with pytest.raises(ValueError, match="expire before a retry"):
        QueueTiming(timeout_seconds=10, visibility_seconds=60, max_receives=3, retention_seconds=59)


def test_a_dead_letter_is_kept_longer_than_the_queues_messages() -> None:
    day = 24 * 3600
    with pytest.raises(ValueError, match="expire at once"):
        QueueTiming(1, 6, max_receives=3, retention_seconds=2 * day, dead_letter_days=2)
    with pytest.raises(ValueError, match="at most 14 days"):
        QueueTiming(1, 6, max_receives=3, dead_letter_days=15)


def test_an_api_function_outlives_an_aws_call_that_times_out() -> None:
    """Issue 10: otherwise it is killed before it can release its reservation and answer."""
    for spec in FUNCTIONS:
        if isinstance(spec.timing, RequestTiming) and spec.grants and spec is not HEALTH:
            assert spec.timing.timeout_seconds >= clients.LONGEST_CALL_SECONDS + 5, spec.name


@pytest.mark.parametrize("timing", _QUEUES)
def test_every_queue_has_six_timeouts_of_visibility_or_a_reason(timing: QueueTiming) -> None:
    assert (timing.visibility_seconds >= 6 * timing.timeout_seconds) is (timing.short_because == "")


def test_an_api_function_must_time_out_before_the_gateway() -> None:
    with pytest.raises(ValueError, match="gateway"):
        RequestTiming(timeout_seconds=29)


def test_a_tick_must_end_before_the_next() -> None:
    with pytest.raises(ValueError, match="next"):
        ScheduleTiming(timeout_seconds=31, every_seconds=30)


def test_cloudformation_waits_longer_than_the_functions_timeout() -> None:
    timing = DeployTiming(timeout_seconds=900)
    assert timing.patience_seconds > timing.timeout_seconds
    with pytest.raises(ValueError, match="longest timeout"):
        DeployTiming(timeout_seconds=901)


def test_an_operator_timeout_is_within_lambdas_limit() -> None:
    with pytest.raises(ValueError, match="longest timeout"):
        OperatorTiming(timeout_seconds=901)


def test_a_lease_outlives_its_holders() -> None:
    """TIX-5, TIX-6: otherwise two holders could run at once."""
    LeaseTiming(61, (ScheduleTiming(timeout_seconds=60),))
    with pytest.raises(ValueError, match="outlive its lease"):
        LeaseTiming(60, (RequestTiming(timeout_seconds=15), ScheduleTiming(timeout_seconds=60)))


def test_the_reapers_lease_is_checked_against_every_function_with_its_rules() -> None:
    """They are found by their settings: the reaper's rules."""
    reaping = [spec.timing for spec in FUNCTIONS if issubclass(spec.settings, ReaperSettings)]
    assert len(reaping) == 3
    assert list(timings.TICKET_REAPER_LEASE.holders) == reaping
    assert list(timings.OPS_CYCLE_LEASE.holders) == [OPS_CYCLE.timing]


def test_a_ticket_is_taken_over_only_from_an_ended_cycle() -> None:
    """TIX-6."""
    assert timings.TICKET_SILENCE.lease_seconds > OPS_CYCLE.timing.timeout_seconds


def test_an_event_is_taken_over_only_from_an_ended_publisher_or_consumer() -> None:
    """AUTH-4, AUTH-5: otherwise two would send or handle it at once."""
    assert list(timings.OUTBOX_SILENCE.holders) == [AUTH_ERRORS_PUBLISH.timing]
    assert list(timings.LEDGER_LEASE.holders) == [AUTH_ERRORS_CONSUME.timing]
