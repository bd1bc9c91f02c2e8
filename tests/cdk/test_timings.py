"""A wrong pair of timings can't be built."""

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


def test_a_queue_must_hide_a_message_for_as_long_as_its_function_may_take() -> None:
    with pytest.raises(ValueError, match="come back"):
        QueueTiming(timeout_seconds=121, visibility_seconds=120, max_receives=3)


def test_a_visibility_below_six_timeouts_needs_its_reason() -> None:
    """AWS advises six; RUN-15 locks one."""
    with pytest.raises(ValueError, match="nothing says why"):
        QueueTiming(timeout_seconds=20, visibility_seconds=119, max_receives=3)
    QueueTiming(timeout_seconds=20, visibility_seconds=120, max_receives=3)


def test_no_message_waits_behind_another_for_its_short_visibility() -> None:
    with pytest.raises(ValueError, match="waits behind another"):
        QueueTiming(
            timeout_seconds=20, visibility_seconds=60, max_receives=3, batch_size=2, short_because="told"
        )


def test_one_hiccup_sends_nothing_to_the_dead_letters() -> None:
    with pytest.raises(ValueError, match="hiccup"):
        QueueTiming(timeout_seconds=1, visibility_seconds=6, max_receives=1)


def test_a_message_lives_until_it_could_be_tried_again() -> None:
    with pytest.raises(ValueError, match="be gone"):
        QueueTiming(timeout_seconds=10, visibility_seconds=60, max_receives=3, retention_seconds=59)


def test_a_dead_letter_outlives_the_messages_of_its_queue_for_as_long_as_sqs_can() -> None:
    day = 24 * 3600
    with pytest.raises(ValueError, match="gone at once"):
        QueueTiming(1, 6, max_receives=3, retention_seconds=2 * day, dead_letter_days=2)
    with pytest.raises(ValueError, match="nothing so long"):
        QueueTiming(1, 6, max_receives=3, dead_letter_days=15)


def test_a_function_behind_the_api_outlives_a_call_that_aws_leaves_unanswered() -> None:
    """Issue 10: else it is killed with a reservation in its hands, where it could have given it back and said so."""
    for spec in FUNCTIONS:
        if isinstance(spec.timing, RequestTiming) and spec.grants and spec is not HEALTH:
            assert spec.timing.timeout_seconds >= clients.LONGEST_CALL_SECONDS + 5, spec.name


@pytest.mark.parametrize("timing", _QUEUES)
def test_every_queue_has_six_timeouts_of_visibility_or_the_reason_why_not(timing: QueueTiming) -> None:
    assert (timing.visibility_seconds >= 6 * timing.timeout_seconds) is (timing.short_because == "")


def test_a_request_function_must_end_before_the_gateway_does() -> None:
    with pytest.raises(ValueError, match="gateway"):
        RequestTiming(timeout_seconds=29)


def test_a_firing_must_end_before_the_next() -> None:
    with pytest.raises(ValueError, match="next"):
        ScheduleTiming(timeout_seconds=31, every_seconds=30)


def test_cloudformation_waits_longer_than_the_function_may_run() -> None:
    timing = DeployTiming(timeout_seconds=900)
    assert timing.patience_seconds > timing.timeout_seconds
    with pytest.raises(ValueError, match="so long"):
        DeployTiming(timeout_seconds=901)


def test_an_operator_s_command_may_take_no_longer_than_lambda_runs_anything() -> None:
    with pytest.raises(ValueError, match="so long"):
        OperatorTiming(timeout_seconds=901)


def test_a_lease_outlives_whoever_may_hold_it() -> None:
    """TIX-5, TIX-6: else two would be at what one at a time may do."""
    LeaseTiming(61, (ScheduleTiming(timeout_seconds=60),))
    with pytest.raises(ValueError, match="live on after its lease"):
        LeaseTiming(60, (RequestTiming(timeout_seconds=15), ScheduleTiming(timeout_seconds=60)))


def test_every_function_that_can_run_the_reaper_is_one_that_its_lease_outlives() -> None:
    """By what they read: the reaper's rules."""
    reaping = [spec.timing for spec in FUNCTIONS if issubclass(spec.settings, ReaperSettings)]
    assert len(reaping) == 3
    assert list(timings.TICKET_REAPER_LEASE.holders) == reaping
    assert list(timings.OPS_CYCLE_LEASE.holders) == [OPS_CYCLE.timing]


def test_nobody_takes_a_ticket_over_from_a_cycle_that_may_still_live() -> None:
    """TIX-6."""
    assert timings.TICKET_SILENCE.lease_seconds > OPS_CYCLE.timing.timeout_seconds


def test_nobody_takes_an_event_over_from_a_publisher_or_a_consumer_that_may_still_live() -> None:
    """AUTH-4, AUTH-5: else it would be sent, or handled, by two at once."""
    assert list(timings.OUTBOX_SILENCE.holders) == [AUTH_ERRORS_PUBLISH.timing]
    assert list(timings.LEDGER_LEASE.holders) == [AUTH_ERRORS_CONSUME.timing]
