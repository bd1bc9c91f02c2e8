"""A wrong pair of timings can't be built."""

import pytest

from dpp_cdk.timings import QueueTiming, RequestTiming, ScheduleTiming


def test_a_queue_must_hide_a_message_for_as_long_as_its_function_may_take() -> None:
    with pytest.raises(ValueError, match="come back"):
        QueueTiming(timeout_seconds=121, visibility_seconds=120, max_receives=3)


def test_a_request_function_must_end_before_the_gateway_does() -> None:
    with pytest.raises(ValueError, match="gateway"):
        RequestTiming(timeout_seconds=29)


def test_a_firing_must_end_before_the_next() -> None:
    with pytest.raises(ValueError, match="next"):
        ScheduleTiming(timeout_seconds=31, every_seconds=30)
