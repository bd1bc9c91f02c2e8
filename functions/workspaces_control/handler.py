"""The control of workspaces: observes workspaces singly and as a fleet, and runs the ticks (WS-1, WS-5; D10)."""

from functools import cache

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.message_batch import batch_handler
from dpp.platform.observability import metrics
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.workspaces.config import ObserveQueueSettings, WorkQueueSettings
from dpp.workspaces.control.message import Observe, ObservePage, Tick, body_of, parse
from dpp.workspaces.control.observe import ControlEffects, observe
from dpp.workspaces.control.tick import HALF_MINUTE, observe_fleet_page, tick
from dpp.workspaces.providers.build import build_provider
from dpp.workspaces.providers.settings import ProviderSettings

logger = service_logger("workspaces_control")
meter = Meter()


class WorkspacesControlSettings(PostgresSettings, ObserveQueueSettings, WorkQueueSettings, ProviderSettings):
    """Rows, the queues of observations and of long work, and the provider."""


@cache
def wiring() -> ControlEffects:
    """Read the environment and build; connections open at their first use."""
    settings = WorkspacesControlSettings.load()
    return ControlEffects(
        Database(settings.database),
        build_provider(settings),
        Queue(settings.observe_queue_url),
        Queue(settings.work_queue_url),
    )


def work_on(record: SQSRecord) -> None:
    """Work on one message; an exception returns it to the queue."""
    match parse(record.body or ""):
        case Observe(workspace_id):
            report = observe(workspace_id, wiring())
            meter.observed(report.steps, report.outage)
            logger.info("observed", extra={"workspace_id": workspace_id, "steps": [step.why for step in report.steps]})
        case ObservePage() as page:
            found = observe_fleet_page(page, wiring())
            meter.add(metrics.FLEET_OBSERVED, found.observed)
            meter.add(metrics.FLEET_CHANGED, len(found.changed))
            if found.outage is not None:
                meter.add(metrics.WORKSPACE_OUTAGES)
        case Tick(is_minute):
            _tick(is_minute=is_minute)
        case _:
            logger.error("message not understood", extra={"message_id": record.message_id})


def _tick(*, is_minute: bool) -> None:
    """Run one tick; the minute's tick also schedules the one half a minute later (D10)."""
    effects = wiring()
    if is_minute:
        effects.observe_queue.send_later(body_of(Tick(is_minute=False)), HALF_MINUTE)
    report = tick(effects)
    meter.add(metrics.TICKS)
    meter.add(metrics.WORKSPACES_SEEDED, report.seeded)
    meter.add(metrics.WORKSPACES_LOWERED, report.lowered)
    meter.add(metrics.WORKSPACES_UNSETTLED, report.stats.unsettled)
    meter.add(metrics.WORKSPACE_OPERATION_AGE, report.stats.oldest_operation_seconds)
    meter.add(metrics.WORKSPACES_IN_ERROR, report.stats.in_error)
    meter.add(metrics.WORKSPACES_LOST, report.stats.lost)
    logger.info("tick done", extra={"seeded": report.seeded, "lowered": report.lowered})


handler = batch_handler(logger, meter, work_on)
