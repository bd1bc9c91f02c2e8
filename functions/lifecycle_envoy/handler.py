"""The envoy (notifier): sends messages to Slack (LIFE-5). Runs on a schedule and when another role wakes it."""

from functools import cache
from typing import Any

from dpp.lifecycle.config import ChannelSettings, OutsideSettings
from dpp.lifecycle.flow.notifier import NotifierEffects, send_messages
from dpp.lifecycle.flow.outside import OutsideFunction
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import MESSAGES_DELIVERED
from dpp.platform.scheduled_job import scheduled_job

logger = service_logger("lifecycle_envoy")
meter = Meter()


class LifecycleEnvoySettings(PostgresSettings, OutsideSettings, ChannelSettings):
    """Rows, the function that reaches the internet, and the Slack channel."""


@cache
def wiring() -> NotifierEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleEnvoySettings.load()
    outside = OutsideFunction(settings.outside_function)
    return NotifierEffects(Database(settings.database), outside, settings.slack_channel)


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = send_messages(wiring())
    for outcome, count in (("SENT", report.sent), ("REPEATED", report.repeated), ("FAILED", report.failed)):
        meter.add(MESSAGES_DELIVERED, count, Outcome=outcome)
    return report.as_dict()
