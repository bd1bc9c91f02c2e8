"""The SQL of cleanups and of the list of objects to delete, and nothing else.

`now` moves the clock in tests; in production it is None and Postgres's own clock decides (D1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.lifecycle.retention.model import ClassReport, ClassStatus, ClassUse, Cleanup, CleanupKind
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.retention import Batch, Cursor
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.retention", "queries.sql")
DELETIONS_A_CALL = 1_000
"""As many objects as S3 deletes in one call."""


@dataclass(frozen=True, slots=True)
class NewCleanup:
    """A cleanup that is to begin; `classes` with the time before which what they hold is due, in their order."""

    cleanup_id: UUID
    kind: CleanupKind
    day: date
    requested_by: str
    over_breaker: bool
    classes: Sequence[tuple[str, datetime]]


@dataclass(frozen=True, slots=True)
class DeletionBacklog:
    """What S3 has yet to delete: objects, those that it refused before, and the age of the oldest in seconds."""

    objects: int
    refused: int
    oldest_seconds: float


def clock(connection: Connection, now: datetime | None = None) -> datetime:
    """Postgres's clock (D1)."""
    (row,) = connection.execute(QUERIES["clock"], {"now": now}).fetchall()
    at: datetime = row[0]
    return at


def begin(connection: Connection, new: NewCleanup, now: datetime | None = None) -> bool:
    """Begin a cleanup; False where this day's has been, or another is under way."""
    params = {
        "cleanup_id": new.cleanup_id,
        "kind": new.kind,
        "day": new.day,
        "requested_by": new.requested_by,
        "over_breaker": new.over_breaker,
        "now": now,
    }
    with connection.transaction():
        if connection.execute(QUERIES["begin"], params).fetchone() is None:
            return False
        for position, (name, before) in enumerate(new.classes):
            one = {"cleanup_id": new.cleanup_id, "class": name, "position": position, "before": before}
            connection.execute(QUERIES["begin_class"], one)
    return True


def daily_was_begun(connection: Connection, day: date) -> bool:
    """Whether the day's cleanup was begun."""
    return connection.execute(QUERIES["daily_was_begun"], {"day": day}).fetchone() is not None


def running(connection: Connection) -> Cleanup | None:
    """The cleanup that is under way."""
    return _one(connection, named_rows(connection, QUERIES["running"], {}))


def find(connection: Connection, cleanup_id: UUID) -> Cleanup | None:
    """One cleanup."""
    return _one(connection, named_rows(connection, QUERIES["cleanup"], {"cleanup_id": cleanup_id}))


def latest(connection: Connection, limit: int) -> list[Cleanup]:
    """The latest cleanups, the newest first."""
    return [_cleanup(connection, row) for row in named_rows(connection, QUERIES["latest"], {"limit": limit})]


def history(connection: Connection, name: str, limit: int) -> list[int]:
    """What the last daily cleanups deleted of a class, the newest first."""
    rows = connection.execute(QUERIES["history"], {"class": name, "limit": limit})
    return [int(row[0]) for row in rows]


def latest_of_classes(connection: Connection) -> list[tuple[str, ClassStatus]]:
    """What became of each class the last time that it was over."""
    return [(str(row[0]), ClassStatus(row[1])) for row in connection.execute(QUERIES["latest_of_classes"])]


def age_of_daily(connection: Connection, now: datetime | None = None) -> float | None:
    """For how many seconds the last daily cleanup has been over; None where none has been."""
    (row,) = connection.execute(QUERIES["age_of_daily"], {"now": now}).fetchall()
    return None if row[0] is None else float(row[0])


def let_through(connection: Connection, cleanup_id: UUID, name: str, due: int, allowed: int) -> None:
    """A class begins."""
    connection.execute(QUERIES["let_through"], _of(cleanup_id, name) | {"due": due, "allowed": allowed})


def advance(connection: Connection, cleanup_id: UUID, name: str, batch: Batch, before: Cursor | None) -> bool:
    """Write down what a batch did, in its transaction; False where the class is not under way any more.

    `before`: where the batch began, and where the class stays when nothing was left to look at.
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
    """A class is over for this cleanup; `counted`: due and allowed, as the breaker counted them."""
    due, allowed = counted or (None, None)
    params = {"status": status, "oldest_left_at": oldest_left_at, "due": due, "allowed": allowed}
    connection.execute(QUERIES["end_class"], _of(cleanup_id, name) | params)


def note_error(connection: Connection, cleanup_id: UUID, name: str, error: str, most: int) -> None:
    """A batch failed; after `most` of a class it is FAILED."""
    connection.execute(QUERIES["note_error"], _of(cleanup_id, name) | {"error": error[:500], "most": most})


def end(
    connection: Connection,
    cleanup_id: UUID,
    usage: Sequence[ClassUse],
    warnings: Sequence[str],
    now: datetime | None = None,
) -> bool:
    """The cleanup is done; False where it was already."""
    params = {
        "cleanup_id": cleanup_id,
        "usage": Jsonb([one.as_dict() for one in usage]),
        "warnings": Jsonb(list(warnings)),
        "now": now,
    }
    return connection.execute(QUERIES["end"], params).rowcount == 1


def stop_classes(connection: Connection, cleanup_id: UUID, reason: str) -> None:
    """What was not ended is not gone on with."""
    connection.execute(QUERIES["stop_classes"], {"cleanup_id": cleanup_id, "reason": reason[:500]})


def due_deletions(connection: Connection, now: datetime | None = None) -> list[str]:
    """The keys of objects whose rows are gone, as many as S3 takes in a call."""
    params = {"limit": DELETIONS_A_CALL, "now": now}
    return [str(row[0]) for row in connection.execute(QUERIES["due_deletions"], params)]


def note_deletions(
    connection: Connection, gone: Sequence[str], refused: Mapping[str, str], now: datetime | None = None
) -> None:
    """S3 has deleted these, and refused those with its code: again later."""
    with connection.transaction():
        connection.execute(QUERIES["deleted_objects"], {"keys": list(gone)})
        for key, code in refused.items():
            connection.execute(QUERIES["refused_object"], {"key": key, "error": code[:500], "now": now})


def deletion_backlog(connection: Connection, now: datetime | None = None) -> DeletionBacklog:
    """What S3 has yet to delete."""
    (row,) = connection.execute(QUERIES["deletion_backlog"], {"now": now}).fetchall()
    return DeletionBacklog(int(row[0]), int(row[1]), float(row[2]))


def overdue(connection: Connection, what: str, days: int, now: datetime | None = None) -> list[str]:
    """The tasks of threads, or of questions, that are older than so many days (LIFE-10); a hundred of them at most."""
    rows = connection.execute(QUERIES[f"overdue_{what}"], {"days": days, "now": now})
    return [str(row[0]) for row in rows]


def _of(cleanup_id: UUID, name: str) -> dict[str, Any]:
    return {"cleanup_id": cleanup_id, "class": name}


def _one(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> Cleanup | None:
    return _cleanup(connection, rows[0]) if rows else None


def _cleanup(connection: Connection, row: Mapping[str, Any]) -> Cleanup:
    classes = named_rows(connection, QUERIES["classes"], {"cleanup_id": row["cleanup_id"]})
    return Cleanup(
        cleanup_id=row["cleanup_id"],
        kind=CleanupKind(row["kind"]),
        day=row["day"],
        requested_by=row["requested_by"],
        over_breaker=row["over_breaker"],
        is_done=row["status"] == "DONE",
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        usage=row["usage"] or (),
        warnings=row["warnings"] or (),
        classes=[_class(one) for one in classes],
    )


def _class(row: Mapping[str, Any]) -> ClassReport:
    fields = {name: value for name, value in row.items() if name != "class"}
    return ClassReport(name=row["class"], **fields | {"status": ClassStatus(row["status"])})
