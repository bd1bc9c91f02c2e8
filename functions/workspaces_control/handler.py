"""The control of workspaces: looks, pages of the fleet, and the beat that seeds them (WS-1, WS-5; D10)."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation, of_message
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    FIRINGS,
    FLEET_CHANGED,
    FLEET_LOOKED,
    WORKSPACE_OPERATION_AGE,
    WORKSPACE_OUTAGES,
    WORKSPACES_IN_ERROR,
    WORKSPACES_LOST,
    WORKSPACES_LOWERED,
    WORKSPACES_SEEDED,
    WORKSPACES_UNSETTLED,
)
from dpp.workspaces.control.message import Beat, Fleet, Look, body_of, parse
from dpp.workspaces.control.observe import look
from dpp.workspaces.control.tick import HALF_MINUTE, beat, look_at_fleet
from workspaces_control.wiring import wiring

logger = service_logger("workspaces_control")
meter = Meter()
# A batch that fails whole is reported message by message too: none of them waits for the others.
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


def work_on(record: SQSRecord) -> None:
    """Work on one message; whatever is raised returns it to the queue."""
    with of_message(logger, record.message_id):
        _work_on(record.body or "", record.message_id)


def _work_on(body: str, message_id: str) -> None:
    match parse(body):
        case Look(workspace_id):
            looked = look(workspace_id, wiring())
            meter.looked(looked.steps, looked.outage)
            logger.info(
                "looked",
                extra={"workspace_id": workspace_id, "steps": [step.why for step in looked.steps]},
            )
        case Fleet() as page:
            found = look_at_fleet(page, wiring())
            meter.add(FLEET_LOOKED, found.looked)
            meter.add(FLEET_CHANGED, len(found.changed))
            if found.outage is not None:
                meter.add(WORKSPACE_OUTAGES)
        case Beat(is_minute):
            _beat(is_minute=is_minute)
        case _:
            logger.error("message not understood", extra={"message_id": message_id})


def _beat(*, is_minute: bool) -> None:
    """The clock's beat, and the one that it sends for half a minute later (D10)."""
    effects = wiring()
    if is_minute:
        effects.looks.send_later(body_of(Beat(is_minute=False)), HALF_MINUTE)
    report = beat(effects)
    meter.add(FIRINGS)
    meter.add(WORKSPACES_SEEDED, report.seeded)
    meter.add(WORKSPACES_LOWERED, report.lowered)
    meter.add(WORKSPACES_UNSETTLED, report.measures.unsettled)
    meter.add(WORKSPACE_OPERATION_AGE, report.measures.oldest_operation_seconds)
    meter.add(WORKSPACES_IN_ERROR, report.measures.in_error)
    meter.add(WORKSPACES_LOST, report.measures.lost)
    logger.info("fired", extra={"seeded": report.seeded, "lowered": report.lowered})


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on a batch; the answer names the messages that come again."""
    return process_partial_response(event=event, record_handler=work_on, processor=processor, context=context)
