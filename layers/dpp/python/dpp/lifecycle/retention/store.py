"""SQL of cleanups and of the deletion list.

`now` replaces the clock in tests; in production it is None, and Postgres's clock is used (D1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.lifecycle.retention.model import ClassStatus, ClassUse, Cleanup, CleanupKind
from dpp.platform.db.clock import transaction_start
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.retention import Batch, Cursor
from dpp.platform.db.rows import from_row
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.retention", "queries.sql")
clock = transaction_start
DELETIONS_A_CALL = 1_000
"""The maximum of S3's DeleteObjects."""


@dataclass(frozen=True, slots=True)
class NewCleanup:
    """A cleanup to start; `classes` in their order, each with the time before which its rows are due."""

    cleanup_id: UUID
    kind: CleanupKind
    day: date
    requested_by: str
    over_breaker: bool
    classes: Sequence[tuple[str, datetime]]


@dataclass(frozen=True, slots=True)
class DeletionBacklog:
    """Listed objects, those that S3 refused before, and the age of the oldest in seconds."""

    objects: int
    refused: int
    oldest_seconds: float


def start(connection: Connection, new: NewCleanup, now: datetime | None = None) -> bool:
    """Start a cleanup. Returns False if the day's cleanup was started before, or if another is running."""
    params = {
        "cleanup_id": new.cleanup_id,
        "kind": new.kind,
        "day": new.day,
        "requested_by": new.requested_by,
        "over_breaker": new.over_breaker,
        "now": now,
    }
    with connection.transaction():
        if connection.execute(QUERIES["start"], params).fetchone() is None:
            return False
        for position, (name, before) in enumerate(new.classes):
            one = {"cleanup_id": new.cleanup_id, "class": name, "position": position, "before": before}
            connection.execute(QUERIES["add_class"], one)
    return True


def daily_was_started(connection: Connection, day: date) -> bool:
    """True if the day's cleanup was started."""
    return connection.execute(QUERIES["daily_was_started"], {"day": day}).fetchone() is not None


def running(connection: Connection) -> Cleanup | None:
    """The running cleanup."""
    return _one(connection, named_rows(connection, QUERIES["running"], {}))


def find(connection: Connection, cleanup_id: UUID) -> Cleanup | None:
    """A cleanup by its id."""
    return _one(connection, named_rows(connection, QUERIES["cleanup"], {"cleanup_id": cleanup_id}))


def latest(connection: Connection, limit: int) -> list[Cleanup]:
    """The latest cleanups, the newest first."""
    return [_cleanup(connection, row) for row in named_rows(connection, QUERIES["latest"], {"limit": limit})]


def history(connection: Connection, name: str, limit: int) -> list[int]:
    """Return how many rows of a class the last daily cleanups deleted, the newest first."""
    rows = connection.execute(QUERIES["history"], {"class": name, "limit": limit})
    return [int(row[0]) for row in rows]


def latest_of_classes(connection: Connection) -> list[tuple[str, ClassStatus]]:
    """The final status of each class in its latest cleanup."""
    return [(str(row[0]), ClassStatus(row[1])) for row in connection.execute(QUERIES["latest_of_classes"])]


def age_of_daily(connection: Connection, now: datetime | None = None) -> float | None:
    """Seconds since the last daily cleanup ended, None if there was none."""
    (row,) = connection.execute(QUERIES["age_of_daily"], {"now": now}).fetchall()
    return None if row[0] is None else float(row[0])


def let_through(connection: Connection, cleanup_id: UUID, name: str, due: int, allowed: int) -> None:
    """Mark a class as running, with the breaker's counts."""
    connection.execute(QUERIES["let_through"], _of(cleanup_id, name) | {"due": due, "allowed": allowed})


def advance(connection: Connection, cleanup_id: UUID, name: str, batch: Batch, before: Cursor | None) -> bool:
    """Write the counts of a batch in its transaction. Returns False if the class is no longer running.

    `before`: the cursor at the start of the batch, which is kept if no row was left.
    """
    at = batch.cursor or before
    params = _of(cleanup_id, name) | {
        "examined": batch.examined,
        "deleted": batch.deleted,
        "bytes": batch.bytes,
        "cursor_time": at.time if at else None,
        "cursor_id": at.id if at else None,
    }
    return connection.execute(QUERIES["advance"], params).rowcount == 1


def end_class(
    connection: Connection,
    cleanup_id: UUID,
    name: str,
    status: ClassStatus,
    *,
    oldest_left_at: datetime | None = None,
    counted: tuple[int, int] | None = None,
) -> None:
    """Mark a class as finished; `counted`: the breaker's counts `due` and `allowed`."""
    due, allowed = counted or (None, None)
    params = {"status": status, "oldest_left_at": oldest_left_at, "due": due, "allowed": allowed}
    connection.execute(QUERIES["end_class"], _of(cleanup_id, name) | params)


def note_error(connection: Connection, cleanup_id: UUID, name: str, error: str, most: int) -> None:
    """Count a failed batch; after `most` failures the class is FAILED."""
    connection.execute(QUERIES["note_error"], _of(cleanup_id, name) | {"error": error[:500], "most": most})


def end(
    connection: Connection,
    cleanup_id: UUID,
    usage: Sequence[ClassUse],
    warnings: Sequence[str],
    now: datetime | None = None,
) -> bool:
    """Mark the cleanup as done. Returns False if it was done before."""
    params = {
        "cleanup_id": cleanup_id,
        "usage": Jsonb([one.as_dict() for one in usage]),
        "warnings": Jsonb(list(warnings)),
        "now": now,
    }
    return connection.execute(QUERIES["end"], params).rowcount == 1


def stop_classes(connection: Connection, cleanup_id: UUID, reason: str) -> None:
    """Mark all unfinished classes as stopped."""
    connection.execute(QUERIES["stop_classes"], {"cleanup_id": cleanup_id, "reason": reason[:500]})


def due_deletions(connection: Connection, now: datetime | None = None) -> list[str]:
    """The keys of listed objects that are due, at most one call's worth."""
    params = {"limit": DELETIONS_A_CALL, "now": now}
    return [str(row[0]) for row in connection.execute(QUERIES["due_deletions"], params)]


def note_deletions(
    connection: Connection, gone: Sequence[str], refused: Mapping[str, str], now: datetime | None = None
) -> None:
    """Remove deleted objects from the list, and postpone those that S3 refused, with its error code."""
    with connection.transaction():
        connection.execute(QUERIES["deleted_objects"], {"keys": list(gone)})
        for key, code in refused.items():
            connection.execute(QUERIES["refused_object"], {"key": key, "error": code[:500], "now": now})


def deletion_backlog(connection: Connection, now: datetime | None = None) -> DeletionBacklog:
    """Count the listed objects."""
    (row,) = connection.execute(QUERIES["deletion_backlog"], {"now": now}).fetchall()
    return DeletionBacklog(int(row[0]), int(row[1]), float(row[2]))


def overdue(connection: Connection, what: str, days: int, now: datetime | None = None) -> list[str]:
    """The tasks whose threads or questions are older than `days` (LIFE-10), at most a hundred."""
    rows = connection.execute(QUERIES[f"overdue_{what}"], {"days": days, "now": now})
    return [str(row[0]) for row in rows]


def _of(cleanup_id: UUID, name: str) -> dict[str, Any]:
    return {"cleanup_id": cleanup_id, "class": name}


def _one(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Cleanup | None:
    return _cleanup(connection, rows[0]) if rows else None


def _cleanup(connection: Connection, row: Mapping[str, Any]) -> Cleanup:
    classes = named_rows(connection, QUERIES["classes"], {"cleanup_id": row["cleanup_id"]})
    read = {
        "is_done": row["status"] == "DONE",
        "usage": row["usage"] or (),
        "warnings": row["warnings"] or (),
        "classes": [one | {"name": one["class"]} for one in classes],
    }
    return from_row(Cleanup, {**row, **read})
