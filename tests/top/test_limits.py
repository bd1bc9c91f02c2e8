"""The page calls wrong what an alarm rises for, from the same figure on (`dpp.platform.observability.limits`)."""

import pytest

from dpp.money import stats as money_stats
from dpp.platform.observability import limits
from dpp.platform.observability.limits import Limit
from dpp_cdk.functions.spec import Part
from dpp_cdk.monitoring.alarm_spec import AT_LEAST, BELOW, AlarmSpec, ResourceNames
from dpp_cdk.monitoring.alarms import alarms
from dpp_cdk.settings.sizes import SIZES
from dpp_cli.top import problems

NAMES = ResourceNames(
    "test", "api", "runs", "dead", "events", "dead-events", "database", ("cache-001",), parts=frozenset(Part)
)
ALARMS = list(alarms(NAMES, SIZES["prod"]))
ALL = [*(one for one in vars(limits).values() if isinstance(one, Limit)), *limits.FLOW_STUCK.values()]
BY_TIME = {limits.EMERGENCY_STOP.anchor, limits.OPS_CYCLE_SILENT.anchor}
"""Limits whose alarms measure a duration, not how much of it there is."""


def of(limit: Limit) -> list[AlarmSpec]:
    """The limit's alarms; of several with one entry, those that say the same where any does."""
    found = [alarm for alarm in ALARMS if alarm.anchor == limit.anchor]
    return [alarm for alarm in found if alarm.says == limit.says] or found


@pytest.mark.parametrize("limit", ALL, ids=lambda limit: limit.says)
def test_an_alarm_rises_from_the_same_figure_on(limit: Limit) -> None:
    assert of(limit)
    for alarm in of(limit):
        if limit.anchor not in BY_TIME:
            assert (alarm.threshold, alarm.comparison) == (limit.at_least, AT_LEAST)


def test_what_alarms_tell_by_time_is_reported_after_the_same_time() -> None:
    [stop], [silent] = of(limits.EMERGENCY_STOP), of(limits.OPS_CYCLE_SILENT)
    assert (stop.threshold, 60 * stop.watched.minutes * stop.periods) == (1, limits.EMERGENCY_STOP.at_least)
    assert (silent.threshold, silent.comparison) == (1, BELOW)
    assert 60 * silent.watched.minutes * silent.periods == limits.OPS_CYCLE_SILENT.at_least
    assert silent.says == limits.OPS_CYCLE_SILENT.says


def test_what_happened_lately_is_what_happened_in_an_alarm_s_period() -> None:
    for limit in (limits.LEDGER_DRIFT, limits.AUTH_ERRORS_ESCALATED):
        [alarm] = of(limit)
        assert 60 * alarm.watched.minutes * alarm.periods == money_stats.RECENT_SECONDS == 300


def test_each_limit_is_asked_by_the_page() -> None:
    """One that the page forgot would be an alarm that nobody sees there."""
    source = problems.__loader__.get_source(problems.__name__)  # type: ignore[union-attr]
    forgotten = [name for name, one in vars(limits).items() if isinstance(one, Limit) and name not in source]
    assert forgotten == []
