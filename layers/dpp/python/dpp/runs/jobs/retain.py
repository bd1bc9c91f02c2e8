"""Retention (RUN-12, D7, D8): what is past its time goes, a bounded batch a firing.

- runs past their 30 days become tombstones in EXPIRED: the owner reads 410, the idempotency key is free again.
- inputs of ended runs are deleted once a grace of an hour has passed.

The objects themselves go by the bucket's lifecycle (RUN-30). Every step is repeatable; a crash leaves the rest to
the next firing, and any number of firings at once do the work once.
"""

import time
from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Database
from dpp.runs import store
from dpp.runs.jobs.batch import TIME_LIMIT_SECONDS, BatchReport, work_through
from dpp.runs.model import Run

_EXPIRE_LIMIT = 5_000
_PURGE_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class RetentionReport:
    """What one firing did."""

    expired: BatchReport
    purged_inputs: int


def retain(database: Database, scan: Database, now: datetime | None = None) -> RetentionReport:
    """One firing. `scan` reads the pages on a connection of its own."""
    report = BatchReport()
    with scan.connection() as connection:
        past = store.page_through(connection, "page_past_retention", now)
        work_through(past, lambda run: expire_run(database, run, now), report, limit=_EXPIRE_LIMIT)
    return RetentionReport(report, purge_inputs(database, now))


def expire_run(database: Database, run: Run, now: datetime | None = None) -> Run | None:
    """Make a tombstone of one run; None where another firing was first."""
    with database.connection() as connection:
        return store.expire(connection, run, now)


def purge_inputs(database: Database, now: datetime | None = None) -> int:
    """Delete inputs whose run ended over an hour ago, batch by batch; how many."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    purged = 0
    while time.monotonic() < deadline:
        with database.connection() as connection:
            batch = store.purge_inputs(connection, limit=_PURGE_BATCH, now=now)
        purged += batch
        if batch < _PURGE_BATCH:
            break
    return purged
