"""How the life of data stands, for the metrics of each firing (LIFE-8, LIFE-10, LIFE-11): figures, cheap to ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.model import ClassStatus
from dpp.lifecycle.retention.store import DeletionBacklog
from dpp.lifecycle.retention.warnings import OVERDUE_DAYS
from dpp.platform.db.postgres import Connection


@dataclass(frozen=True, slots=True)
class Stats:
    """`cleanup_age_seconds`: since the last daily cleanup ended, None where none has. `tripped`, `failed`: classes of
    the latest cleanups, one of each class, that no later one has deleted from. `overdue_threads`, `overdue_questions`:
    older than seven days, a hundred at most."""

    cleanup_age_seconds: float | None
    tripped: tuple[str, ...]
    failed: tuple[str, ...]
    heartbeat_ages: Mapping[Role, float]
    overdue_threads: int
    overdue_questions: int
    deletions: DeletionBacklog


def read_stats(connection: Connection, now: datetime | None = None) -> Stats:
    """As it stands."""
    latest = store.latest_of_classes(connection)
    return Stats(
        cleanup_age_seconds=store.age_of_daily(connection, now),
        tripped=tuple(name for name, status in latest if status is ClassStatus.TRIPPED),
        failed=tuple(name for name, status in latest if status is ClassStatus.FAILED),
        heartbeat_ages=heartbeat.ages(connection, now),
        overdue_threads=len(store.overdue(connection, "threads", OVERDUE_DAYS, now)),
        overdue_questions=len(store.overdue(connection, "awaiting", OVERDUE_DAYS, now)),
        deletions=store.deletion_backlog(connection, now),
    )
