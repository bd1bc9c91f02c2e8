"""The king (dispatcher): makes tasks of events, and ends events with their tasks (LIFE-1).

Runs on a schedule and when another role wakes it.
"""

from functools import cache
from typing import Any

from dpp.lifecycle.config import WakesEnvoy, WakesGeneral
from dpp.lifecycle.flow.dispatcher import DispatcherEffects, dispatch
from dpp.lifecycle.flow.reading.read import Backlog, backlog
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FLOW_AGE, FLOW_WAITING, TASKS_BEGUN
from dpp.platform.scheduled_job import scheduled_job

logger = service_logger("lifecycle_king")
meter = Meter()


class LifecycleKingSettings(PostgresSettings, WakesGeneral, WakesEnvoy):
    """Rows, and the roles that it wakes."""


@cache
def wiring() -> DispatcherEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleKingSettings.load()
    return DispatcherEffects(Database(settings.database), WakeByInvocation(settings.functions))


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    effects = wiring()
    report = dispatch(effects)
    with effects.database.connection() as connection:
        _measure(backlog(connection))
    meter.add(TASKS_BEGUN, report.dispatched)
    return report.as_dict()


def _measure(found: Backlog) -> None:
    for item, waiting, seconds in (
        ("EVENT", found.events_pending, found.oldest_event_seconds),
        ("TASK", found.tasks_pending + found.tasks_in_progress, found.oldest_task_seconds),
        ("MESSAGE", found.messages_pending, found.oldest_message_seconds),
    ):
        meter.add(FLOW_WAITING, waiting, Item=item)
        meter.add(FLOW_AGE, seconds, Item=item)
