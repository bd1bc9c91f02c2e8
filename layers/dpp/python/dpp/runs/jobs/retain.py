"""Retention (RUN-12, D7, D8), in a bounded batch per tick.

- Runs past their 30 days become tombstones (EXPIRED): the owner reads 410, and the idempotency key is free again.
- The inputs of ended runs are deleted after an hour.

The bucket's lifecycle deletes the objects (RUN-30). Every step is repeatable: a crash leaves the rest to the next tick,
and any number of ticks at once do the work once.
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
    """The work of one tick."""

    expired: BatchReport
    purged_inputs: int


def retain(database: Database, scan: Database, now: datetime | None = None) -> RetentionReport:
    """One tick. `scan` reads the pages on its own connection."""
    report = BatchReport()
    with scan.connection() as connection:
        past = store.page_through(connection, "page_past_retention", now)
        work_through(past, lambda run: expire_run(database, run, now), report, limit=_EXPIRE_LIMIT)
    return RetentionReport(report, purge_inputs(database, now))


def expire_run(database: Database, run: Run, now: datetime | None = None) -> Run | None:
    """Make one run a tombstone; None if another tick was first."""
    return database.using(store.expire, run, now)


def purge_inputs(database: Database, now: datetime | None = None) -> int:
    """Delete the inputs of runs that ended over an hour ago, in batches, and return how many."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    purged = 0
    while time.monotonic() < deadline:
        batch = database.using(store.purge_inputs, limit=_PURGE_BATCH, now=now)
        purged += batch
        if batch < _PURGE_BATCH:
            break
    return purged
