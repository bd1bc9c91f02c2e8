"""The SQL of the outbox and of processed messages (AUTH-4, AUTH-5).

`now` sets the clock in tests; in production it is None, and Postgres's clock decides (D1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.auth_errors.errors import OutboxConflict
from dpp.auth_errors.model import ClaimedEvent, OutboxEntry, ProcessedMessage
from dpp.auth_errors.outbox.events import AGGREGATE_TYPE, EventDescriptor, EventType
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rows import row_as, rows_as
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.auth_errors.outbox", "outbox.sql")


def enqueue(connection: Connection, event: EventDescriptor, now: datetime | None = None) -> bool:
    """Add an event to the outbox; False if it is there. Raises OutboxConflict for its key with another payload."""
    params = {
        "aggregate_type": AGGREGATE_TYPE,
        "auth_error_id": event.auth_error_id,
        "event_type": event.event_type,
        "idempotency_key": event.idempotency_key,
        "payload": Jsonb(dict(event.payload)),
        "payload_hash": event.payload_hash,
        "now": now,
    }
    if connection.execute(QUERIES["enqueue"], params).fetchone() is not None:
        return True
    row = connection.execute(QUERIES["hash_of_key"], params).fetchone()
    if row is None or row[0] != event.payload_hash:
        raise OutboxConflict
    return False


def claim(connection: Connection, owner: UUID, limit: int, now: datetime | None = None) -> list[ClaimedEvent]:
    """Claim up to `limit` due events for this owner, in the order of enqueueing."""
    return _claimed(connection, "claim", {"owner": owner, "limit": limit, "now": now})


def take_over(
    connection: Connection, owner: UUID, limit: int, silent_seconds: int, now: datetime | None = None
) -> list[ClaimedEvent]:
    """Claim up to `limit` events whose owner has had them for more than `silent_seconds`."""
    params = {"owner": owner, "limit": limit, "silent_seconds": silent_seconds, "now": now}
    return _claimed(connection, "take_over", params)


def send_again(
    connection: Connection, limit: int, silent_seconds: int, now: datetime | None = None
) -> list[ClaimedEvent]:
    """Up to `limit` events that were published `silent_seconds` ago, are not handled and have no lease."""
    params = {"limit": limit, "silent_seconds": silent_seconds, "now": now}
    return _claimed(connection, "send_again", params)


def mark_published(connection: Connection, owner: UUID, outbox_ids: Sequence[int], now: datetime | None = None) -> int:
    """Mark events that this owner still has as PUBLISHED, and return their number."""
    params = {"owner": owner, "outbox_ids": list(outbox_ids), "now": now}
    return connection.execute(QUERIES["mark_published"], params).rowcount


def put_back(
    connection: Connection, owner: UUID, outbox_id: int, *, retry_count: int, next_retry_at: datetime | None, error: str
) -> bool:
    """To PENDING until `next_retry_at`, or to DEAD if it is None; False if another owner has the event."""
    params = {
        "owner": owner,
        "outbox_id": outbox_id,
        "retry_count": retry_count,
        "next_retry_at": next_retry_at,
        "error": error,
    }
    return connection.execute(QUERIES["put_back"], params).rowcount == 1


@dataclass(frozen=True, slots=True)
class EventRef:
    """The event that a message names. It must match the outbox's row."""

    outbox_id: int
    event_type: EventType
    auth_error_id: UUID


def ensure_row_exists(connection: Connection, named: EventRef, now: datetime | None = None) -> None:
    """Insert the processed message if there is none and the outbox has the event. No other code inserts one."""
    connection.execute(QUERIES["ensure_row_exists"], asdict(named) | {"now": now})


def processed(connection: Connection, named: EventRef) -> ProcessedMessage | None:
    """The processed message; None if the outbox has no such event."""
    return row_as(ProcessedMessage, connection, QUERIES["processed"], asdict(named))


def take_lease(
    connection: Connection,
    named: EventRef,
    owner: UUID,
    *,
    lease_seconds: int,
    max_retries: int,
    now: datetime | None = None,
) -> int | None:
    """Lease the message, and return the number of this attempt; None if it can't be leased."""
    params = asdict(named) | {"owner": owner, "lease_seconds": lease_seconds, "max_retries": max_retries, "now": now}
    row = connection.execute(QUERIES["take_lease"], params).fetchone()
    return None if row is None else int(row[0])


def finish(connection: Connection, outbox_id: int, owner: UUID, now: datetime | None = None) -> float | None:
    """To DONE; returns the seconds since the event was created, or None if another owner has the lease."""
    params = {"outbox_id": outbox_id, "owner": owner, "now": now}
    row = connection.execute(QUERIES["finish"], params).fetchone()
    return None if row is None else float(row[0])


def lock_lease(connection: Connection, outbox_id: int, owner: UUID) -> bool:
    """Lock the lease until the transaction ends; False if another owner has it."""
    params = {"outbox_id": outbox_id, "owner": owner}
    return connection.execute(QUERIES["lock_lease"], params).fetchone() is not None


def wait(
    connection: Connection,
    outbox_id: int,
    owner: UUID,
    *,
    next_retry_at: datetime,
    error: str,
    now: datetime | None = None,
) -> bool:
    """To RETRY_WAIT until `next_retry_at`; False if another owner has the lease."""
    params = {"outbox_id": outbox_id, "owner": owner, "next_retry_at": next_retry_at, "error": error, "now": now}
    return connection.execute(QUERIES["wait"], params).rowcount == 1


def mark_dead(
    connection: Connection, outbox_id: int, owner: UUID | None, error: str, now: datetime | None = None
) -> bool:
    """To DEAD: by the lease's owner, or (`owner` None) if no lease is valid. False if it did not apply."""
    params = {"outbox_id": outbox_id, "owner": owner, "error": error, "now": now}
    return connection.execute(QUERIES["mark_dead"], params).rowcount == 1


def mark_dead_lettered(connection: Connection, outbox_id: int, now: datetime | None = None) -> None:
    """Mark that the event's copy was sent to the dead-letter queue."""
    connection.execute(QUERIES["mark_dead_lettered"], {"outbox_id": outbox_id, "now": now})


def revive(connection: Connection, outbox_id: int, now: datetime | None = None) -> bool:
    """Revive a dead event with all its retries, in the outbox or at the consumer; False if it isn't dead."""
    params = {"outbox_id": outbox_id, "now": now}
    changed = [connection.execute(QUERIES[name], params).rowcount for name in ("revive_outbox", "revive_processed")]
    return any(changed)


def entries(connection: Connection, outbox_ids: Sequence[int]) -> list[OutboxEntry]:
    """These events with their processed messages, the oldest first."""
    return rows_as(OutboxEntry, connection, QUERIES["entries"], {"outbox_ids": list(outbox_ids)})


def dead_ids(connection: Connection, limit: int) -> list[int]:
    """Dead events, the oldest first."""
    return [int(row[0]) for row in connection.execute(QUERIES["dead_ids"], {"limit": limit})]


def waiting_ids(connection: Connection, limit: int) -> list[int]:
    """Events that are not handled, the oldest first."""
    return [int(row[0]) for row in connection.execute(QUERIES["waiting_ids"], {"limit": limit})]


def ids_of_error(connection: Connection, auth_error_id: UUID) -> list[int]:
    rows = connection.execute(QUERIES["ids_of_error"], {"auth_error_id": auth_error_id})
    return sorted(int(row[0]) for row in rows)


@dataclass(frozen=True, slots=True)
class Lag:
    """Events that wait in the outbox, for how many seconds the oldest is due, and waiting or dead ones elsewhere."""

    unpublished: int
    oldest_due_seconds: float
    waiting_for_retry: int
    dead_in_outbox: int
    dead_in_ledger: int


def lag(connection: Connection, now: datetime | None = None) -> Lag:
    (row,) = connection.execute(QUERIES["lag"], {"now": now}).fetchall()
    return Lag(int(row[0]), float(row[1]), int(row[2]), int(row[3]), int(row[4]))


def unhandled(connection: Connection, now: datetime | None = None) -> tuple[int, float]:
    """The number of published events without a lease or retry, up to 1,000, and the age of the oldest in seconds."""
    (row,) = connection.execute(QUERIES["unhandled"], {"now": now}).fetchall()
    return int(row[0]), float(row[1])


def _claimed(connection: Connection, name: str, params: Mapping[str, object]) -> list[ClaimedEvent]:
    return rows_as(ClaimedEvent, connection, QUERIES[name], params)
