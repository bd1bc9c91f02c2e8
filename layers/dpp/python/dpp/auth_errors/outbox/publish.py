"""Publish what the outbox holds (AUTH-4): claim, send, finalize, each event by one owner at a time.

A crash between any two lines leaves an event PENDING, or PROCESSING with an owner that does not come back; the next
firing takes it over once that was so for longer than a publisher lives, and sends it, perhaps a second time, which the
consumer's ledger makes harmless. Whatever was published and came to no end for a quarter of an hour is sent again, so
that a message which a queue lost loses nothing.
"""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from uuid import UUID, uuid4

from dpp.auth_errors import store
from dpp.auth_errors.model import ClaimedEvent
from dpp.auth_errors.outbox import events, tables
from dpp.auth_errors.outbox.retry_policy import Dead, FailureKind, RetryPolicy
from dpp.platform.aws.queue import MAX_BATCH, OutgoingMessage, Queue
from dpp.platform.db.postgres import Database
from dpp.platform.errors import QueueUnavailable

_LOG = logging.getLogger("dpp.auth_errors.outbox.publish")

SILENT_SECONDS = 60
"""An owner that has had an event for longer is dead: no publisher lives so long (checked where timeouts are set)."""

RESEND_SECONDS = 900
"""Past the longest step of the retry ladder, so that what only waits is not sent again."""

TIME_LIMIT_SECONDS = 20.0
CLAIM_LIMIT = 100
WAKE = "wake"
"""The message that wakes the publisher; whatever else comes by its queue is the schedule's beat."""

_OUTAGE = "the queue did not answer"


class Waker:
    """Tells the publisher that there is something to do; where that fails, its schedule finds it within a minute."""

    def __init__(self, queue: Queue | None) -> None:
        self._queue = queue

    def wake(self) -> None:
        """Send the message; a failure is logged and harms nothing."""
        if self._queue is None:
            return
        try:
            self._queue.send(WAKE)
        except QueueUnavailable:
            _LOG.warning("publisher not woken; its schedule finds the event")


@dataclass(frozen=True, slots=True)
class PublishEffects:
    """What publishing touches, and by which policy."""

    database: Database
    queue: Queue
    policy: RetryPolicy


@dataclass(slots=True)
class PublishReport:
    """What one firing did. `delays_seconds`: from each event's beginning to its publication."""

    published: int = 0
    taken_over: int = 0
    sent_again: int = 0
    put_back: int = 0
    dead: int = 0
    lost: int = 0
    stopped_early: bool = False
    delays_seconds: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """For the log."""
        counts = ("published", "taken_over", "sent_again", "put_back", "dead", "lost")
        return {name: getattr(self, name) for name in counts} | {"stopped_early": self.stopped_early}


class _Outage(Exception):
    """The queue doesn't answer; what is left waits for the next firing."""


def publish(
    effects: PublishEffects,
    now: datetime | None = None,
    *,
    scheduled: bool = True,
    elapsed: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Publish all that is due, within 20 s. Raises PostgresUnavailable.

    With `scheduled`, lost messages are sent again too.
    """
    report, owner, until = PublishReport(), uuid4(), elapsed() + TIME_LIMIT_SECONDS
    try:
        for due in (
            partial(_taken_over, effects, owner, report, now),
            partial(_claimed, effects, owner, now),
        ):
            while not report.stopped_early and (events_due := due()):
                _send(effects, owner, events_due, report, now)
                report.stopped_early = elapsed() > until
        if scheduled:
            _send_again(effects, report, now)
    except _Outage:
        report.stopped_early = True
    return report


def _claimed(effects: PublishEffects, owner: UUID, now: datetime | None) -> list[ClaimedEvent]:
    with effects.database.connection() as connection:
        return tables.claim(connection, owner, CLAIM_LIMIT, now)


def _taken_over(
    effects: PublishEffects, owner: UUID, report: PublishReport, now: datetime | None
) -> list[ClaimedEvent]:
    """What dead owners left; one that outlived its tries so often is what kills them, and is dead itself."""
    with effects.database.connection() as connection:
        taken = tables.take_over(connection, owner, CLAIM_LIMIT, SILENT_SECONDS, now)
        report.taken_over += len(taken)
        for event in (one for one in taken if one.retry_count > effects.policy.max_retries):
            error = "each of its publishers did not come back"
            tables.put_back(
                connection,
                owner,
                event.outbox_id,
                retry_count=event.retry_count,
                next_retry_at=None,
                error=error,
            )
            report.dead += 1
    return [event for event in taken if event.retry_count <= effects.policy.max_retries]


def _send(
    effects: PublishEffects,
    owner: UUID,
    claimed: Sequence[ClaimedEvent],
    report: PublishReport,
    now: datetime | None,
) -> None:
    for start in range(0, len(claimed), MAX_BATCH):
        batch = claimed[start : start + MAX_BATCH]
        try:
            refusals = effects.queue.send_batch([message_of(event) for event in batch])
        except QueueUnavailable:
            _put_back(effects, owner, [(event, _OUTAGE) for event in claimed[start:]], report, now)
            raise _Outage from None
        sent = [event for event, refused in zip(batch, refusals, strict=True) if refused is None]
        _finalize(effects, owner, sent, report, now)
        refused = [(event, code) for event, code in zip(batch, refusals, strict=True) if code is not None]
        _put_back(effects, owner, refused, report, now)


def _finalize(
    effects: PublishEffects,
    owner: UUID,
    sent: Sequence[ClaimedEvent],
    report: PublishReport,
    now: datetime | None,
) -> None:
    if not sent:
        return
    with effects.database.connection() as connection:
        marked = tables.mark_published(connection, owner, [event.outbox_id for event in sent], now)
        at = store.clock(connection, now)
    report.published += marked
    report.lost += len(sent) - marked  # taken over meanwhile: the new owner's, who sends it once more
    report.delays_seconds += [max(0.0, (at - event.created_at).total_seconds()) for event in sent]


def _put_back(
    effects: PublishEffects,
    owner: UUID,
    failed: Sequence[tuple[ClaimedEvent, str]],
    report: PublishReport,
    now: datetime | None,
) -> None:
    if not failed:
        return
    with effects.database.connection() as connection, connection.transaction():
        at = store.clock(connection, now)
        for event, error in failed:
            fault = FailureKind.OUTAGE if error == _OUTAGE else FailureKind.MESSAGE
            decided = effects.policy.after_failure(event.retry_count, at, fault)
            dead = isinstance(decided, Dead)
            tables.put_back(
                connection,
                owner,
                event.outbox_id,
                retry_count=decided.retry_count,
                next_retry_at=None if isinstance(decided, Dead) else decided.next_retry_at,
                error=error[:500],
            )
            report.dead += dead
            report.put_back += not dead


def _send_again(effects: PublishEffects, report: PublishReport, now: datetime | None) -> None:
    """What a queue lost. It is marked before it is sent: a crash in between costs another quarter of an hour."""
    with effects.database.connection() as connection:
        lost = tables.send_again(connection, CLAIM_LIMIT, RESEND_SECONDS, now)
    for start in range(0, len(lost), MAX_BATCH):
        batch = lost[start : start + MAX_BATCH]
        try:
            refusals = effects.queue.send_batch([message_of(event) for event in batch])
        except QueueUnavailable:
            raise _Outage from None
        report.sent_again += sum(refused is None for refused in refusals)


def message_of(event: ClaimedEvent) -> OutgoingMessage:
    """An event as it is sent: its payload, with the headers that the consumer asks for (004 §5.2)."""
    headers = {
        events.OUTBOX_ID_HEADER: str(event.outbox_id),
        events.EVENT_TYPE_HEADER: event.event_type.value,
        events.AGGREGATE_TYPE_HEADER: event.aggregate_type,
    }
    return OutgoingMessage(json.dumps(dict(event.payload), ensure_ascii=False), headers)
