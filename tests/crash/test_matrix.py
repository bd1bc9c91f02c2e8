"""Every call that a run's paths make to Redis, Postgres, SQS and S3, failed in every way (D1 … D6).

After each crash clients repeat their requests, messages come again, the jobs run and time passes; then every invariant
holds.
"""

import pytest

from tests.crash.acts import ACTS
from tests.crash.crashes import RunCrashes


@pytest.mark.parametrize("act", list(ACTS))
def test_every_port_is_among_the_points(crashes: RunCrashes, act: str) -> None:
    """A recording that misses calls would pass, too."""
    assert ACTS[act].calls <= crashes.calls_of_clean_run(act)


@pytest.mark.parametrize("act", list(ACTS))
def test_a_crash_loses_no_money_and_leaves_nothing_behind(crashes: RunCrashes, act: str) -> None:
    """The run ends once, is settled or refunded once, and a client that repeats its request pays once."""
    assert list(crashes.crash_everywhere(act)) == []
