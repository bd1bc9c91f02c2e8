"""Handle one message of the event queue (AUTH-5, AUTH-7, AUTH-8): delivered at least once, effects exactly once.

The processed message is leased first, which counts the attempt. The changes of the event and the status DONE are one
transaction, which only the lease holder commits. After a crash at any line the lease expires and the message is
delivered again. An event is marked DEAD before its dead letter is sent; the dead letter is sent again until the row is
marked as dead-lettered.
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID, uuid4

from dpp.auth_errors import store
from dpp.auth_errors.errors import AuthErrorsError, LeaseLost, OutboxConflict
from dpp.auth_errors.machine import ProcessedStatus
from dpp.auth_errors.model import Decision, ProcessedMessage
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import CONSUMER, HANDLERS, Handler, HandlerResult
from dpp.auth_errors.outbox.message import DeadLetterReason, EventMessage, MalformedMessage, read
from dpp.auth_errors.outbox.publish import Waker
from dpp.auth_errors.outbox.retry_policy import FailureKind, Retry, RetryPolicy
from dpp.auth_errors.outbox.tables import EventRef
from dpp.platform.aws.queue import OutgoingMessage, Queue
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import where

_LOG = logging.getLogger("dpp.auth_errors.outbox.consume")

LEASE_SECONDS = 60
"""The lease of a message (004 §2); longer than the consumer's timeout (checked where timeouts are set)."""

REASON_HEADER = "deadLetterReason"
DETAIL_HEADER = "deadLetterDetail"
_MAX_WAIT_SECONDS = 900
_MAX_HEADERS = 8  # SQS accepts ten; this module adds two
_MAX_HEADER_CHARACTERS = 256


class ConsumeOutcome(StrEnum):
    """The outcome of consuming a message."""

    HANDLED = "HANDLED"
    SKIPPED = "SKIPPED"
    RETRY = "RETRY"
    EARLY = "EARLY"
    DEAD_LETTERED = "DEAD_LETTERED"


@dataclass(frozen=True, slots=True)
class Consumed:
    """The result of consuming a message. It is delivered again after `return_in_seconds`; None: it is deleted."""

    outcome: ConsumeOutcome
    event_type: EventType | None = None
    reason: DeadLetterReason | None = None
    return_in_seconds: int | None = None
    handled_after_seconds: float | None = None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class ConsumeEffects:
    """Connections and clients that consuming uses, the retry policy, and a handler for each event type."""

    database: Database
    dead_letters: Queue
    waker: Waker
    policy: RetryPolicy
    handlers: Mapping[EventType, Handler]

    @classmethod
    def of(cls, database: Database, dead_letters: Queue, waker: Waker, policy: RetryPolicy) -> "ConsumeEffects":
        """Effects with the default handlers."""
        return cls(database, dead_letters, waker, policy, HANDLERS)


@dataclass(frozen=True, slots=True)
class _Delivery:
    """One delivery of a readable message."""

    message: EventMessage
    named: EventRef
    effects: ConsumeEffects
    now: datetime | None
    owner: UUID = field(default_factory=uuid4)

    def ended(self, outcome: ConsumeOutcome, return_in_seconds: int | None = None) -> Consumed:
        return Consumed(outcome, self.named.event_type, return_in_seconds=return_in_seconds)


def consume(message: EventMessage, effects: ConsumeEffects, now: datetime | None = None) -> Consumed:
    """Handle a message. Raises DependencyUnavailable; the message is then delivered again."""
    try:
        delivery = _Delivery(message, read(message), effects, now)
    except MalformedMessage as found:
        return _reject(message, effects, found.reason, found.detail)
    with effects.database.connection() as connection:
        with connection.transaction():  # one flush to disk instead of two
            tables.ensure_row_exists(connection, delivery.named, now)
            attempt = tables.take_lease(
                connection,
                delivery.named,
                delivery.owner,
                lease_seconds=LEASE_SECONDS,
                max_retries=effects.policy.max_retries,
                now=now,
            )
        if attempt is None:
            return _without_lease(connection, delivery)
    try:
        return _handle(delivery)
    except DependencyUnavailable:
        raise
    except LeaseLost:
        return delivery.ended(ConsumeOutcome.EARLY, LEASE_SECONDS)
    except Exception as error:  # noqa: BLE001 - any error of a handler is a failure of its message; counted and logged
        return _failed(delivery, attempt, error)


def _handle(delivery: _Delivery) -> Consumed:
    named, effects, now = delivery.named, delivery.effects, delivery.now
    with effects.database.connection() as connection, connection.transaction():
        error = store.lock(connection, named.auth_error_id)
        if error is None:
            raise AssertionError(f"event {named.outbox_id} has no authentication error")
        handled: HandlerResult = effects.handlers[named.event_type](connection, error, now)
        after = tables.finish(connection, named.outbox_id, delivery.owner, now)
        if after is None:
            raise LeaseLost
    if handled.enqueued:
        effects.waker.wake()
    return Consumed(
        ConsumeOutcome.SKIPPED if handled.skipped else ConsumeOutcome.HANDLED,
        named.event_type,
        handled_after_seconds=after,
        decision=handled.decision,
    )


def _failed(delivery: _Delivery, attempt: int, error: Exception) -> Consumed:
    """Count the failure, and wait for a retry or give up. The handler's changes are rolled back."""
    named, effects, now = delivery.named, delivery.effects, delivery.now
    found = where(error)
    detail = (str(error) if isinstance(error, AuthErrorsError) else str(found["class"]))[:500]
    _LOG.error("event not handled", extra={"outbox_id": named.outbox_id, "attempt": attempt, "error": found})
    permanent = isinstance(error, OutboxConflict)
    with effects.database.connection() as connection, connection.transaction():
        store.lock(connection, named.auth_error_id)
        if not tables.lock_lease(connection, named.outbox_id, delivery.owner):
            return delivery.ended(ConsumeOutcome.EARLY, LEASE_SECONDS)
        at = store.clock(connection, now)
        kind = FailureKind.PERMANENT if permanent else FailureKind.MESSAGE
        decided = effects.policy.after_failure(attempt - 1, at, kind)
        if isinstance(decided, Retry):
            _wait(connection, delivery, decided, detail)
            return delivery.ended(ConsumeOutcome.RETRY, decided.delay_seconds)
        tables.mark_dead(connection, named.outbox_id, delivery.owner, detail, now)
    reason = DeadLetterReason.NOT_RETRYABLE if permanent else DeadLetterReason.MAX_RETRIES_EXCEEDED
    return _dead_letter_event(delivery, reason, detail)


def _wait(connection: Connection, delivery: _Delivery, retry: Retry, detail: str) -> None:
    named, now = delivery.named, delivery.now
    store.note_failure(
        connection, named.auth_error_id, actor=CONSUMER, failure=detail, next_retry_at=retry.next_retry_at, now=now
    )
    tables.wait(connection, named.outbox_id, delivery.owner, next_retry_at=retry.next_retry_at, error=detail, now=now)


def _without_lease(connection: Connection, delivery: _Delivery) -> Consumed:
    """The result for a message that could not be leased, by the current state of its row."""
    named, now = delivery.named, delivery.now
    row = tables.processed(connection, named)
    if row is None:
        known = store.find(connection, named.auth_error_id) is not None
        reason = DeadLetterReason.UNKNOWN_EVENT if known else DeadLetterReason.AUTH_ERROR_NOT_FOUND
        return _reject(delivery.message, delivery.effects, reason, "the outbox has no event with these ids")
    if row.status is ProcessedStatus.DONE:
        return delivery.ended(ConsumeOutcome.SKIPPED)
    at = store.clock(connection, now)
    if row.status is not ProcessedStatus.DEAD and not _is_exhausted(row, delivery.effects.policy, at):
        until = row.next_retry_at or row.lease_until or at
        wait = min(max(1, math.ceil((until - at).total_seconds())), _MAX_WAIT_SECONDS)
        return delivery.ended(ConsumeOutcome.EARLY, wait)
    detail = row.last_error or "the lease of every attempt expired"
    if row.status is not ProcessedStatus.DEAD:
        if not tables.mark_dead(connection, named.outbox_id, None, detail, now):
            return delivery.ended(ConsumeOutcome.EARLY, 1)
    elif row.dead_lettered_at is not None:
        return delivery.ended(ConsumeOutcome.SKIPPED)
    return _dead_letter_event(delivery, DeadLetterReason.MAX_RETRIES_EXCEEDED, detail)


def _is_exhausted(row: ProcessedMessage, policy: RetryPolicy, at: datetime) -> bool:
    leased = row.lease_until is not None and row.lease_until > at
    return row.attempts > policy.max_retries and not leased


def _dead_letter_event(delivery: _Delivery, reason: DeadLetterReason, detail: str) -> Consumed:
    """Send a dead event's copy to the DLQ, then mark it. In the reverse order, a crash could lose the copy."""
    effects, named = delivery.effects, delivery.named
    effects.dead_letters.send_with_headers(_dead_letter(delivery.message, reason, detail))
    effects.database.using(tables.mark_dead_lettered, named.outbox_id, delivery.now)
    return Consumed(ConsumeOutcome.DEAD_LETTERED, named.event_type, reason)


def _reject(message: EventMessage, effects: ConsumeEffects, reason: DeadLetterReason, detail: str) -> Consumed:
    """Send a message to the DLQ that no retry can help (AUTH-7). The outbox sends its event again, if it has one."""
    _LOG.error("dead letter", extra={"reason": reason})
    effects.dead_letters.send_with_headers(_dead_letter(message, reason, detail))
    return Consumed(ConsumeOutcome.DEAD_LETTERED, reason=reason)


def _dead_letter(message: EventMessage, reason: DeadLetterReason, detail: str) -> OutgoingMessage:
    """The message as it arrived, with the reason in its attributes. SQS accepts no empty body and no empty value."""
    values = {name: value[:_MAX_HEADER_CHARACTERS] for name, value in message.headers.items() if value}
    headers = dict(list(values.items())[:_MAX_HEADERS])
    headers |= {REASON_HEADER: reason.value, DETAIL_HEADER: detail[:_MAX_HEADER_CHARACTERS] or reason.value}
    return OutgoingMessage(message.body or json.dumps(None), headers)
