"""The warnings in the report of a cleanup (LIFE-10, LIFE-11): sentences with ids, no user content."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.model import ClassStatus, Cleanup
from dpp.lifecycle.retention.usage import Usage
from dpp.platform.db.postgres import Connection

OVERDUE_DAYS = 7
"""An older thread has outlived its task; an older question is unanswered."""
_NAMED = 5


def warnings_of(connection: Connection, cleanup_id: UUID, usage: Usage, now: datetime | None = None) -> list[str]:
    """The warnings for a cleanup that is about to end."""
    cleanup = store.find(connection, cleanup_id)
    of_classes = _of_classes(cleanup) if cleanup is not None else ()
    unmeasured = [f"not measured: {', '.join(usage.unmeasured)}"] if usage.unmeasured else []
    return [*of_classes, *_of_threads(connection, now), *_of_others(connection, now), *unmeasured]


def _of_classes(cleanup: Cleanup) -> Iterator[str]:
    for one in cleanup.classes:
        match one.status:
            case ClassStatus.TRIPPED:
                yield (
                    f"{one.name}: more rows are due than usual (at most {one.allowed}), so none was deleted. To delete"
                    f" them: dpp lifecycle run --class {one.name} --over-breaker"
                )
            case ClassStatus.CAPPED:
                yield f"{one.name}: the maximum of one cleanup was deleted, and more rows are due"
            case ClassStatus.FAILED:
                yield f"{one.name}: given up after {one.errors} failed batches, the last: {one.last_error}"
            case _:
                pass


def _of_threads(connection: Connection, now: datetime | None) -> Iterator[str]:
    threads = store.overdue(connection, "threads", OVERDUE_DAYS, now)
    if threads:
        yield f"tasks whose threads are older than {OVERDUE_DAYS} days: {_some(threads)}"
    awaiting = store.overdue(connection, "awaiting", OVERDUE_DAYS, now)
    if awaiting:
        yield f"tasks whose questions have been unanswered for {OVERDUE_DAYS} days: {_some(awaiting)}"


def _of_others(connection: Connection, now: datetime | None) -> Iterator[str]:
    if silent := heartbeat.dead(heartbeat.ages(connection, now)):
        yield f"no heartbeat for {heartbeat.DEAD_AFTER_SECONDS} s from {', '.join(silent)}"
    backlog = store.deletion_backlog(connection, now)
    if backlog.refused:
        yield f"S3 refused to delete {backlog.refused} objects; they stay listed"


def _some(ids: list[str]) -> str:
    more = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")
