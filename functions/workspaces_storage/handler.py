"""The storage of workspaces: steps that take as long as a home is large, and archive cleanup (WS-10, WS-13)."""

from functools import cache

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.message_batch import batch_handler
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import ARCHIVES_COLLECTED, ARCHIVES_COLLECTED_BYTES, ARCHIVES_REFUSED, TICKS
from dpp.workspaces.archives.collect import collect
from dpp.workspaces.config import ObserveQueueSettings, WorkQueueSettings
from dpp.workspaces.control.message import Collect, Tick, Work, body_of, parse
from dpp.workspaces.control.observe import ControlEffects, observe
from dpp.workspaces.providers.build import build_provider
from dpp.workspaces.providers.settings import ProviderSettings

logger = service_logger("workspaces_storage")
meter = Meter()


class WorkspacesStorageSettings(PostgresSettings, ObserveQueueSettings, WorkQueueSettings, ProviderSettings):
    """Rows, the queues of observations and of long work, and the provider."""


@cache
def wiring() -> ControlEffects:
    """Read the environment and build; connections open at their first use."""
    settings = WorkspacesStorageSettings.load()
    return ControlEffects(
        Database(settings.database),
        build_provider(settings),
        Queue(settings.observe_queue_url),
        Queue(settings.work_queue_url),
    )


def work_on(record: SQSRecord) -> None:
    """Work on one message; an exception returns it to the queue."""
    match parse(record.body or ""):
        case Work(workspace_id):
            report = observe(workspace_id, wiring(), does_long_work=True)
            meter.observed(report.steps, report.outage)
            logger.info("worked", extra={"workspace_id": workspace_id, "steps": [step.why for step in report.steps]})
        case Collect(after):
            _collect(after)
        case Tick():
            meter.add(TICKS)
            _collect(None)
        case _:
            logger.error("message not understood", extra={"message_id": record.message_id})


def _collect(after: str | None) -> None:
    """Check one part of the bucket for unneeded archives; a message of its own continues with the rest."""
    effects = wiring()
    found = collect(effects.database, effects.provider.archives, after=after)
    if found.after is not None:
        effects.work_queue.send(body_of(Collect(found.after)))
    meter.add(ARCHIVES_COLLECTED, found.deleted)
    meter.add(ARCHIVES_COLLECTED_BYTES, found.deleted_bytes)
    meter.add(ARCHIVES_REFUSED, found.refused)
    logger.info("collected", extra={"by_verdict": found.by_verdict, "deleted": found.deleted})


handler = batch_handler(logger, meter, work_on)
