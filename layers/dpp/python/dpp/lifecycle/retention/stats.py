"""How the life of data stands, for the metrics of each firing (LIFE-8, LIFE-10, LIFE-11): figures, cheap to ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.model import Role
from dpp.lifecycle.retention import cleanup_rows
from dpp.lifecycle.retention.cleanup import ClassStatus
from dpp.lifecycle.retention.cleanup_rows import DeletionBacklog
from dpp.lifecycle.retention.warnings import OVERDUE_DAYS
from dpp.platform.db.postgres import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """`cleanup_age_seconds`: since the last daily cleanup ended, None where none has. `tripped`, `failed`: classes of
    the latest cleanups, one of each class, that no later one has deleted from. `overdue_threads`, `overdue_questions`:
    older than seven days, a hundred at most."""

    cleanup_age_seconds: float | None
    tripped: tuple[str, ...]
    failed: tuple[str, ...]
    silences: Mapping[Role, float]
    overdue_threads: int
    overdue_questions: int
    deletions: DeletionBacklog


def standing(connection: Connection, now: datetime | None = None) -> Standing:
    """As it stands."""
    latest = cleanup_rows.latest_of_classes(connection)
    return Standing(
        cleanup_age_seconds=cleanup_rows.age_of_daily(connection, now),
        tripped=tuple(name for name, status in latest if status is ClassStatus.TRIPPED),
        failed=tuple(name for name, status in latest if status is ClassStatus.FAILED),
        silences=heartbeat.silences(connection, now),
        overdue_threads=len(cleanup_rows.overdue(connection, "threads", OVERDUE_DAYS, now)),
        overdue_questions=len(cleanup_rows.overdue(connection, "awaiting", OVERDUE_DAYS, now)),
        deletions=cleanup_rows.deletion_backlog(connection, now),
    )
