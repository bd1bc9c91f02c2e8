"""Retention statistics for the metrics of each tick and for `dpp top` (LIFE-8, LIFE-10, LIFE-11)."""

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
    """`cleanup_age_seconds`: time since the last daily cleanup ended, None if there was none. `tripped`, `failed`:
    classes that ended so in their latest cleanup. `overdue_threads`, `overdue_questions`: those older than seven days,
    at most a hundred."""

    cleanup_age_seconds: float | None
    tripped: tuple[str, ...]
    failed: tuple[str, ...]
    heartbeat_ages: Mapping[Role, float]
    overdue_threads: int
    overdue_questions: int
    deletions: DeletionBacklog


def read_stats(connection: Connection, now: datetime | None = None) -> Stats:
    """Read the statistics."""
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
