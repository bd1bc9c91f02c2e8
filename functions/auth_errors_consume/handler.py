"""The consumer of authentication errors' events (AUTH-5, AUTH-7)."""

from functools import cache

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from dpp.auth_errors.config import EventDeadLetterSettings, EventQueueSettings, RetrySettings, WakeQueueSettings
from dpp.auth_errors.outbox.consume import Consumed, ConsumeEffects, consume
from dpp.auth_errors.outbox.message import EventMessage
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.errors import QueueUnavailable
from dpp.platform.message_batch import ReturnMessage, batch_handler
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import AUTH_ERROR_DECISIONS, EVENT_AGE, EVENTS

logger = service_logger("auth_errors_consume")
meter = Meter()


class AuthErrorsConsumeSettings(
    PostgresSettings, EventQueueSettings, EventDeadLetterSettings, WakeQueueSettings, RetrySettings
):
    """Rows, the event queue (to delay a message), its dead-letter queue, the publisher's queue, the retry policy."""


@cache
def wiring() -> tuple[ConsumeEffects, Queue]:
    """The connections that consuming uses, and the event queue; connections open at their first use."""
    settings = AuthErrorsConsumeSettings.load()
    effects = ConsumeEffects.of(
        Database(settings.database),
        Queue(settings.event_dead_letter_queue_url),
        Waker(Queue(settings.wake_queue_url)),
        settings.policy,
    )
    return effects, Queue(settings.event_queue_url)


def work_on(record: SQSRecord) -> None:
    """Work on one message. Raises ReturnMessage for one that is retried later; any exception returns the message."""
    effects, _ = wiring()
    consumed = consume(_message(record), effects)
    _measure(consumed)
    logger.info(
        "message done", extra={"message_id": record.message_id, "outcome": consumed.outcome, "reason": consumed.reason}
    )
    if consumed.return_in_seconds is not None:
        _delay(record, consumed.return_in_seconds)
        raise ReturnMessage


def _message(record: SQSRecord) -> EventMessage:
    attributes = record.raw_event.get("messageAttributes") or {}
    headers = {name: str(value["stringValue"]) for name, value in attributes.items() if value.get("stringValue")}
    return EventMessage(record.body or "", headers)


def _delay(record: SQSRecord, seconds: int) -> None:
    """Delay the next delivery by the backoff (AUTH-8). The row decides: a message that comes early waits again."""
    _, events = wiring()
    try:
        events.extend_visibility(record.receipt_handle, seconds)
    except QueueUnavailable:
        logger.warning("message keeps its visibility", extra={"message_id": record.message_id})


def _measure(consumed: Consumed) -> None:
    meter.add(EVENTS, Outcome=consumed.outcome)
    if consumed.handled_after_seconds is not None:
        meter.add(EVENT_AGE, consumed.handled_after_seconds)
    if consumed.decision is not None:
        meter.add(
            AUTH_ERROR_DECISIONS, DecisionType=consumed.decision.decision_type, DecidedBy=consumed.decision.decided_by
        )


handler = batch_handler(logger, meter, work_on)
