"""The storage of workspaces: what takes as long as a home is large, and archives that nobody needs (WS-10, WS-13)."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation, of_message
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    ARCHIVES_COLLECTED,
    ARCHIVES_COLLECTED_BYTES,
    ARCHIVES_REFUSED,
    FIRINGS,
)
from dpp.workspaces.archives.collect import collect
from dpp.workspaces.control.message import Beat, Collect, Work, body_of, parse
from dpp.workspaces.control.observe import look
from workspaces_storage.wiring import wiring

logger = service_logger("workspaces_storage")
meter = Meter()
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


def work_on(record: SQSRecord) -> None:
    """Work on one message; whatever is raised returns it to the queue."""
    with of_message(logger, record.message_id):
        _work_on(record.body or "", record.message_id)


def _work_on(body: str, message_id: str) -> None:
    match parse(body):
        case Work(workspace_id):
            looked = look(workspace_id, wiring(), does_long=True)
            meter.looked(looked.steps, looked.outage)
            logger.info(
                "worked",
                extra={"workspace_id": workspace_id, "steps": [step.why for step in looked.steps]},
            )
        case Collect(after):
            _collect(after)
        case Beat():
            meter.add(FIRINGS)
            _collect(None)
        case _:
            logger.error("message not understood", extra={"message_id": message_id})


def _collect(after: str | None) -> None:
    """A part of the bucket; the rest by a message of its own."""
    effects = wiring()
    found = collect(effects.database, effects.provider.archives, after=after)
    if found.after is not None:
        effects.works.send(body_of(Collect(found.after)))
    meter.add(ARCHIVES_COLLECTED, found.deleted)
    meter.add(ARCHIVES_COLLECTED_BYTES, found.deleted_bytes)
    meter.add(ARCHIVES_REFUSED, found.refused)
    logger.info("collected", extra={"by_verdict": found.by_verdict, "deleted": found.deleted})


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on a batch; the answer names the messages that come again."""
    return process_partial_response(event=event, record_handler=work_on, processor=processor, context=context)
