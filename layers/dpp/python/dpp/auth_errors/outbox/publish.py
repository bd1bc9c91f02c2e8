"""Publish the events of the outbox (AUTH-4): claim, send, finalize. Each event has one owner at a time.

After a crash at any line an event is PENDING, or PROCESSING with a dead owner. A later tick takes it over when the
owner has exceeded a publisher's timeout, and sends it, perhaps a second time, which the consumer handles once. An event
that was published but not handled for a quarter of an hour is sent again, so a lost message loses no event.
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
"""An owner that has had an event for longer is dead: it exceeds a publisher's timeout (checked where those are set)."""

RESEND_SECONDS = 900
"""Longer than the longest retry delay, so that an event that waits for a retry is not sent again."""

TIME_LIMIT_SECONDS = 20.0
CLAIM_LIMIT = 100
WAKE = "wake"
"""The message that wakes the publisher; any other message of its queue is a tick of its schedule."""

_OUTAGE = "the queue did not answer"


class Waker:
    """Wakes the publisher. If that fails, the publisher's schedule finds the event within a minute."""

    def __init__(self, queue: Queue | None) -> None:
        self._queue = queue

    def wake(self) -> None:
        """Send the wake message. A failure is logged and harmless."""
        if self._queue is None:
            return
        try:
            self._queue.send(WAKE)
        except QueueUnavailable:
            _LOG.warning("publisher not woken; its schedule finds the event")


@dataclass(frozen=True, slots=True)
class PublishEffects:
    """Connections and clients that publishing uses, and the retry policy."""

    database: Database
    queue: Queue
    policy: RetryPolicy


@dataclass(slots=True)
class PublishReport:
    """The result of one publishing. `delays_seconds`: from the creation of each event to its publication."""

    published: int = 0
    taken_over: int = 0
    sent_again: int = 0
    put_back: int = 0
    dead: int = 0
    lost: int = 0
    stopped_early: bool = False
    delays_seconds: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """The counts, for the log."""
        counts = ("published", "taken_over", "sent_again", "put_back", "dead", "lost")
        return {name: getattr(self, name) for name in counts} | {"stopped_early": self.stopped_early}


class _Outage(Exception):
    """The queue doesn't answer; the remaining events wait for the next tick."""


def publish(
    effects: PublishEffects,
    now: datetime | None = None,
    *,
    scheduled: bool = True,
    elapsed: Callable[[], float] = time.monotonic,
) -> PublishReport:
    """Publish all due events, within 20 s. On a `scheduled` tick, lost messages are sent again too.

    Raises PostgresUnavailable.
    """
    report, owner, until = PublishReport(), uuid4(), elapsed() + TIME_LIMIT_SECONDS
    try:
        for due in (partial(_taken_over, effects, owner, report, now), partial(_claimed, effects, owner, now)):
            while not report.stopped_early and (events_due := due()):
                _send(effects, owner, events_due, report, now)
                report.stopped_early = elapsed() > until
        if scheduled:
            _send_again(effects, report, now)
    except _Outage:
        report.stopped_early = True
    return report


def _claimed(effects: PublishEffects, owner: UUID, now: datetime | None) -> list[ClaimedEvent]:
    return effects.database.using(tables.claim, owner, CLAIM_LIMIT, now)


def _taken_over(
    effects: PublishEffects, owner: UUID, report: PublishReport, now: datetime | None
) -> list[ClaimedEvent]:
    """Take over events of dead owners. An event without retries left is marked dead: it may crash its publishers."""
    with effects.database.connection() as connection:
        taken = tables.take_over(connection, owner, CLAIM_LIMIT, SILENT_SECONDS, now)
        report.taken_over += len(taken)
        for event in (one for one in taken if one.retry_count > effects.policy.max_retries):
            tables.put_back(
                connection,
                owner,
                event.outbox_id,
                retry_count=event.retry_count,
                next_retry_at=None,
                error="every publisher that claimed it crashed or timed out",
            )
            report.dead += 1
    return [event for event in taken if event.retry_count <= effects.policy.max_retries]


def _send(
    effects: PublishEffects, owner: UUID, claimed: Sequence[ClaimedEvent], report: PublishReport, now: datetime | None
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
    effects: PublishEffects, owner: UUID, sent: Sequence[ClaimedEvent], report: PublishReport, now: datetime | None
) -> None:
    if not sent:
        return
    with effects.database.connection() as connection:
        marked = tables.mark_published(connection, owner, [event.outbox_id for event in sent], now)
        at = store.clock(connection, now)
    report.published += marked
    report.lost += len(sent) - marked  # taken over in the meantime; the new owner sends it again
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
            kind = FailureKind.OUTAGE if error == _OUTAGE else FailureKind.MESSAGE
            decided = effects.policy.after_failure(event.retry_count, at, kind)
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
    """Send lost messages again. They are marked first: a crash in between delays them by a quarter of an hour."""
    lost = effects.database.using(tables.send_again, CLAIM_LIMIT, RESEND_SECONDS, now)
    for start in range(0, len(lost), MAX_BATCH):
        batch = lost[start : start + MAX_BATCH]
        try:
            refusals = effects.queue.send_batch([message_of(event) for event in batch])
        except QueueUnavailable:
            raise _Outage from None
        report.sent_again += sum(refused is None for refused in refusals)


def message_of(event: ClaimedEvent) -> OutgoingMessage:
    """The message of an event: its payload, with the headers that the consumer requires (004 §5.2)."""
    headers = {
        events.OUTBOX_ID_HEADER: str(event.outbox_id),
        events.EVENT_TYPE_HEADER: event.event_type.value,
        events.AGGREGATE_TYPE_HEADER: event.aggregate_type,
    }
    return OutgoingMessage(json.dumps(dict(event.payload), ensure_ascii=False), headers)
