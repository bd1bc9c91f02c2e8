"""The sentinel (poller): polls the sources that are due and takes in new events (LIFE-1, LIFE-7). Runs every minute."""

from functools import cache
from typing import Any

from dpp.lifecycle.config import OutsideSettings, SourcesSettings, WakesKing
from dpp.lifecycle.flow.intake.poller import PollerEffects, SourceReport, poll_sources
from dpp.lifecycle.flow.outside import OutsideFunction
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import EVENTS_TAKEN_IN, SOURCE_FAILURES
from dpp.platform.scheduled_job import scheduled_job

logger = service_logger("lifecycle_sentinel")
meter = Meter()


class LifecycleSentinelSettings(PostgresSettings, SourcesSettings, OutsideSettings, WakesKing, RetentionSettings):
    """Rows, the sources' queries, the function that reaches the internet, the role to wake, and events' maximum age."""


@cache
def wiring() -> PollerEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleSentinelSettings.load()
    return PollerEffects(
        database=Database(settings.database),
        outside=OutsideFunction(settings.outside_function),
        wake=WakeByInvocation(settings.functions),
        github_login=settings.github_login,
        jira_jql=settings.jira_jql,
        horizon_days=settings.retention.horizon_days,
    )


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = poll_sources(wiring())
    for one in report.sources:
        _measure(one)
    return report.as_dict()


def _measure(one: SourceReport) -> None:
    outcomes = {"ACCEPTED": one.accepted, "DUPLICATE": one.duplicates, "TOO_OLD": one.too_old, "SKIPPED": one.skipped}
    for outcome, count in outcomes.items():
        meter.add(EVENTS_TAKEN_IN, count, Source=one.source, Outcome=outcome)
    meter.add(SOURCE_FAILURES, one.failures, Source=one.source)
