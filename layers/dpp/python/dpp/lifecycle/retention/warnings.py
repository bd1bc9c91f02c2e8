"""What a report warns of besides its figures (LIFE-10, LIFE-11): sentences with ids, no word of anybody's."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.model import ClassStatus, Cleanup
from dpp.lifecycle.retention.usage import Usage
from dpp.platform.db.postgres import Connection

OVERDUE_DAYS = 7
"""A mapping or a question that is older outlived its task, or nobody answers it."""
_NAMED = 5


def warnings_of(
    connection: Connection, cleanup_id: UUID, usage: Usage, now: datetime | None = None
) -> list[str]:
    """The warnings of a cleanup that is about to end."""
    cleanup = store.find(connection, cleanup_id)
    of_classes = _of_classes(cleanup) if cleanup is not None else ()
    unmeasured = [f"not measured: {', '.join(usage.unmeasured)}"] if usage.unmeasured else []
    return [*of_classes, *_of_threads(connection, now), *_of_others(connection, now), *unmeasured]


def _of_classes(cleanup: Cleanup) -> Iterator[str]:
    for one in cleanup.classes:
        match one.status:
            case ClassStatus.TRIPPED:
                yield (
                    f"{one.name}: more than the {one.allowed} rows that are usual are due, so none was deleted:"
                    f" dpp lifecycle run --class {one.name} --over-breaker"
                )
            case ClassStatus.CAPPED:
                yield f"{one.name}: as many rows as one cleanup deletes are gone, and more are due"
            case ClassStatus.FAILED:
                yield f"{one.name}: given up after {one.errors} errors, the last: {one.last_error}"
            case _:
                pass


def _of_threads(connection: Connection, now: datetime | None) -> Iterator[str]:
    threads = store.overdue(connection, "threads", OVERDUE_DAYS, now)
    if threads:
        yield f"threads older than {OVERDUE_DAYS} days, whose tasks should have ended: {_some(threads)}"
    awaiting = store.overdue(connection, "awaiting", OVERDUE_DAYS, now)
    if awaiting:
        yield f"questions that nobody answered for {OVERDUE_DAYS} days: {_some(awaiting)}"


def _of_others(connection: Connection, now: datetime | None) -> Iterator[str]:
    if silent := heartbeat.dead(heartbeat.ages(connection, now)):
        yield f"nothing was heard for {heartbeat.DEAD_AFTER_SECONDS} s of {', '.join(silent)}"
    backlog = store.deletion_backlog(connection, now)
    if backlog.refused:
        yield f"{backlog.refused} objects that S3 refused to delete; they stay on the list"


def _some(ids: list[str]) -> str:
    more = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")
