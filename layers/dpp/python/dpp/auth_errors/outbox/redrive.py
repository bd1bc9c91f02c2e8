"""Revive dead events with all their retries (AUTH-4, AUTH-5, AUTH-8), on an operator's request.

Each event is one transaction. An event that is DEAD in the outbox returns to PENDING; a processed message that is DEAD
returns to PENDING too, and its event is marked to be sent again. After a crash the remaining events are still dead, and
the command can be repeated. Without a wake, an event waits up to a minute for the publisher's schedule. An event that
was published before always waits for it, because a wake publishes only new events.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dpp.auth_errors.machine import OutboxStatus, ProcessedStatus
from dpp.auth_errors.model import OutboxEntry
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.db.postgres import Database

_LOG = logging.getLogger("dpp.auth_errors.outbox.redrive")
_BATCH = 200


class DeliveryStatus(StrEnum):
    """The status of an event's delivery."""

    UNKNOWN = "UNKNOWN"
    """The outbox has no such event: it was deleted after its retention, or never existed."""
    UNDER_WAY = "UNDER_WAY"
    HANDLED = "HANDLED"
    DEAD = "DEAD"


def delivery_status(entry: OutboxEntry | None) -> DeliveryStatus:
    if entry is None:
        return DeliveryStatus.UNKNOWN
    if OutboxStatus.DEAD is entry.status or ProcessedStatus.DEAD is entry.processed_status:
        return DeliveryStatus.DEAD
    return DeliveryStatus.HANDLED if entry.processed_status is ProcessedStatus.DONE else DeliveryStatus.UNDER_WAY


@dataclass(frozen=True, slots=True)
class Redriven:
    """A requested event, its status before, and whether it was revived."""

    outbox_id: int
    status_before: DeliveryStatus
    revived: bool


def redrive(outbox_ids: Sequence[int], database: Database, waker: Waker) -> Iterator[Redriven]:
    """Revive the dead ones of these events, and wake the publisher at the end.

    Yields each event when it is done. Raises DependencyUnavailable.
    """
    revived = 0
    try:
        for outbox_id in dict.fromkeys(outbox_ids):
            one = _revive(outbox_id, database)
            revived += one.revived
            yield one
    finally:
        if revived:
            waker.wake()


def redrive_all(database: Database, waker: Waker, limit: int) -> Iterator[Redriven]:
    """The same for all dead events, the oldest first, up to `limit`. Events that die again meanwhile stay dead."""
    seen: set[int] = set()
    while len(seen) < limit:
        found = database.using(tables.dead_ids, min(_BATCH + len(seen), limit))
        fresh = [outbox_id for outbox_id in found if outbox_id not in seen]
        if not fresh:
            return
        seen.update(fresh)
        yield from redrive(fresh, database, waker)


def _revive(outbox_id: int, database: Database) -> Redriven:
    with database.connection() as connection, connection.transaction():
        before = delivery_status(next(iter(tables.entries(connection, [outbox_id])), None))
        revived = tables.revive(connection, outbox_id)
    if revived:
        _LOG.info("event revived", extra={"outbox_id": outbox_id})
    return Redriven(outbox_id, before, revived)
