"""Give dead events all their tries again (AUTH-4, AUTH-5, AUTH-8), as an operator asks for it.

Each event is a transaction of its own: in the outbox it goes back to PENDING, in the ledger its row does and its event
is marked to be sent again. A crash between two of them leaves the rest dead, and the repetition finds it so. One before
the publisher was woken costs up to a minute, until its schedule fires; what only the ledger had dead waits for that in
any case, since a wake publishes nothing that was published before.
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
    """Where an event stands, as far as it matters to who would send it again."""

    UNKNOWN = "UNKNOWN"
    """The outbox has no such event: it was cleared long ago, or never was."""
    UNDER_WAY = "UNDER_WAY"
    HANDLED = "HANDLED"
    DEAD = "DEAD"


def delivery_status(entry: OutboxEntry | None) -> DeliveryStatus:
    """Where this event stands."""
    if entry is None:
        return DeliveryStatus.UNKNOWN
    if OutboxStatus.DEAD is entry.status or ProcessedStatus.DEAD is entry.processed_status:
        return DeliveryStatus.DEAD
    return (
        DeliveryStatus.HANDLED if entry.processed_status is ProcessedStatus.DONE else DeliveryStatus.UNDER_WAY
    )


@dataclass(frozen=True, slots=True)
class Redriven:
    """An event that was asked for. `revived`: it was dead and is no longer; `status_before` is its status before."""

    outbox_id: int
    status_before: DeliveryStatus
    revived: bool


def redrive(outbox_ids: Sequence[int], database: Database, waker: Waker) -> Iterator[Redriven]:
    """Revive those of them that are dead, and wake the publisher at the end.

    Yields each as it is done. Raises DependencyUnavailable; what was yielded is done.
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
    """The same of all that is dead, the oldest first, up to `limit`; what dies again meanwhile is left dead."""
    seen: set[int] = set()
    while len(seen) < limit:
        with database.connection() as connection:
            found = tables.dead_ids(connection, min(_BATCH + len(seen), limit))
        fresh = [outbox_id for outbox_id in found if outbox_id not in seen]
        if not fresh:
            return
        seen.update(fresh)
        yield from redrive(fresh, database, waker)


def _revive(outbox_id: int, database: Database) -> Redriven:
    with database.connection() as connection, connection.transaction():
        was = delivery_status(next(iter(tables.entries(connection, [outbox_id])), None))
        revived = tables.revive(connection, outbox_id)
    if revived:
        _LOG.info("event revived", extra={"outbox_id": outbox_id})
    return Redriven(outbox_id, was, revived)
