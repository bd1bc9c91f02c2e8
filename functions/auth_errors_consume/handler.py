"""The consumer of authentication errors' events (AUTH-5, AUTH-7). A message that is to come again does so alone."""

from typing import Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from auth_errors_consume.wiring import wiring
from dpp.auth_errors.outbox.consume import Consumed, consume
from dpp.auth_errors.outbox.message import EventMessage
from dpp.platform.errors import QueueUnavailable
from dpp.platform.observability.invocation import invocation, of_message
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import AUTH_ERROR_DECISIONS, EVENT_AGE, EVENTS

logger = service_logger("auth_errors_consume")
meter = Meter()
# A batch that fails whole is reported message by message too: none of them waits for the others.
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


class _ComesAgain(Exception):
    """The message is not done with; SQS shows it again."""


def work_on(record: SQSRecord) -> None:
    """Work on one message; whatever is raised returns it to the queue."""
    with of_message(logger, record.message_id):
        consumed = consume(_message(record), wiring().effects)
    _measure(consumed)
    logger.info(
        "message done",
        extra={"message_id": record.message_id, "outcome": consumed.outcome, "reason": consumed.reason},
    )
    if consumed.return_in_seconds is not None:
        _show_again(record, consumed.return_in_seconds)
        raise _ComesAgain


def _message(record: SQSRecord) -> EventMessage:
    attributes = record.raw_event.get("messageAttributes") or {}
    headers = {
        name: str(value["stringValue"]) for name, value in attributes.items() if value.get("stringValue")
    }
    return EventMessage(record.body or "", headers)


def _show_again(record: SQSRecord, seconds: int) -> None:
    """By the ladder (AUTH-8). The row decides when: a message that comes at another time waits for it once more."""
    try:
        wiring().events.extend_visibility(record.receipt_handle, seconds)
    except QueueUnavailable:
        logger.warning("message keeps its visibility", extra={"message_id": record.message_id})


def _measure(consumed: Consumed) -> None:
    meter.add(EVENTS, Outcome=consumed.outcome)
    if consumed.handled_after_seconds is not None:
        meter.add(EVENT_AGE, consumed.handled_after_seconds)
    if consumed.decision is not None:
        meter.add(
            AUTH_ERROR_DECISIONS,
            DecisionType=consumed.decision.decision_type,
            DecidedBy=consumed.decision.decided_by,
        )


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on a batch; the answer names the messages that come again."""
    return process_partial_response(event=event, record_handler=work_on, processor=processor, context=context)
