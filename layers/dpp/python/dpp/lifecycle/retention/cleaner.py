"""The chamberlain: each night what has outlived its use is deleted, class by class (LIFE-8).

A cleanup is a row, and each of its classes one, from its first moment on: what it deleted, and where it stands, is
written in the transaction of each batch. So a crash between any two lines loses a batch at most, which was not
committed, and the next firing goes on at the cursor; the report is exact whatever happened. One at a time, by a lease
that each batch holds: a chamberlain that slept past its time deletes nothing.

A class is asked first how much is due. Where that is far more than usual nothing of it goes (`breaker.py`) until an
operator says so. A batch that fails is counted, and tried again by the next firing with half the rows; after five
failures the class is left to the next night. Until then what the class points at waits with it: it would be looked at
once, found to be needed, and be a night late. Between batches he rests as long as one took: others are at work.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from uuid import uuid4

import psycopg

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.errors import CleanupRunning
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.classes import OBJECT_CLASSES
from dpp.lifecycle.retention.control import CleanerEffects, allowance, begin_daily, end
from dpp.lifecycle.retention.deletions import Drained, drain
from dpp.lifecycle.retention.model import ClassReport, ClassStatus, Cleanup
from dpp.platform.db import exclusive
from dpp.platform.db.exclusive import Lease, LeaseOver, LeaseTaken
from dpp.platform.db.retention import Batch, Cursor, RetentionBusy, RetentionClass
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached

_LOG = logging.getLogger("dpp.lifecycle.retention.cleaner")
LEASE_NAME = "CHAMBERLAIN"
LEASE_SECONDS = 150
"""Longer than a function that tends may live (`cdk/dpp_cdk/settings/timings.py`)."""
MAX_ERRORS = 5


@dataclass(slots=True)
class CleanerReport:
    """What one firing did: rows deleted by class, batches that failed, objects. `cleanup`: the one that it worked on,
    as it stands after it; None where none was due."""

    cleanup: Cleanup | None = None
    rows: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    errors: int = 0
    objects: Drained = field(default_factory=Drained)


class _Stopped(Exception):
    """An operator ended the class while a batch was under way: the batch is undone."""


def clean(effects: CleanerEffects, now: datetime | None = None) -> CleanerReport:
    """One firing: begin the day's cleanup where it is due, go on with the one under way, empty the list of objects.

    Raises CleanupRunning while another is at it, PostgresUnavailable where nothing can be begun.
    """
    deadline, done = effects.pace.monotonic() + effects.pace.seconds, CleanerReport()
    database = effects.database
    try:
        with exclusive.held(database, LEASE_NAME, str(uuid4()), ttl_seconds=LEASE_SECONDS, now=now) as lease:
            with database.connection() as connection:
                heartbeat.record(connection, Role.CHAMBERLAIN, now)
                begun = store.running(connection) or begin_daily(connection, effects, now)
            if begun is not None:
                _Firing(effects, begun, lease, done, deadline, now).work()
            while drain(database, effects.storage, done.objects, now):
                if effects.pace.monotonic() > deadline:
                    break
    except LeaseTaken as taken:
        raise CleanupRunning(
            f"Another chamberlain is at it since {taken.started_at.isoformat(timespec='seconds')}."
        ) from None
    except LeaseOver:
        _LOG.warning("this chamberlain's time was over, and another has taken it up")
    return done


@dataclass(frozen=True, slots=True)
class _Firing:
    """One firing's way through the classes of a cleanup."""

    effects: CleanerEffects
    begun: Cleanup
    lease: Lease
    done: CleanerReport
    deadline: float
    now: datetime | None

    def work(self) -> None:
        """Each class that is not over, as far as the time goes; the end of the cleanup once all are."""
        known = {one.name: one for one in self.effects.classes}
        held_up: set[str] = set()
        for report in self.begun.classes:
            kept = known.get(report.name)
            if report.status.is_over or not self._in_time():
                continue
            if report.name in held_up or not self._class(report, kept):
                held_up.update(kept.points_at if kept is not None else ())
        with self.effects.database.connection() as connection:
            found = store.find(connection, self.begun.cleanup_id)
        if found is not None and all(one.status.is_over for one in found.classes):
            found = end(self.effects, found.cleanup_id, self.now)
        self.done.cleanup = found

    def _in_time(self) -> bool:
        return self.effects.pace.monotonic() < self.deadline

    def _class(self, report: ClassReport, kept: RetentionClass | None) -> bool:
        """Go on with one class; False where it failed, which is counted against it and holds up only what it points
        at."""
        try:
            if kept is None:  # of a release that knew it
                self._over(report, ClassStatus.FAILED)
            elif report.status is ClassStatus.RUNNING or self._let_through(report, kept):
                self._batches(report, kept)
        except _Stopped:
            _LOG.warning("a class was stopped by an operator", extra={"class": report.name})
        except PostgresNotReached:
            raise
        except (psycopg.Error, DependencyUnavailable, RetentionBusy) as error:
            self._note(report, error)
            return False
        return True

    def _let_through(self, report: ClassReport, kept: RetentionClass) -> bool:
        """Ask the breaker, once a class and cleanup."""
        with self.effects.database.connection() as connection:
            with connection.transaction():
                kept.prepare(connection, self.now)
            allowed = allowance(connection, self.effects, kept.name)
            due = kept.due(connection, report.before, allowed + 1)
            if due <= allowed or self.begun.over_breaker:
                store.let_through(connection, self.begun.cleanup_id, kept.name, due, allowed)
                return True
        told = {"class": kept.name, "allowed": allowed}
        _LOG.error("far more than usual is due: nothing of it is deleted", extra=told)
        self._over(report, ClassStatus.TRIPPED, kept, (due, allowed))
        return False

    def _batches(self, report: ClassReport, kept: RetentionClass) -> None:
        pace, deleted = self.effects.pace, report.deleted
        cursor = Cursor(report.cursor_time, report.cursor_id or "") if report.cursor_time else None
        rows = max(1, pace.batch_rows >> report.errors)
        while self._in_time():
            left = self.effects.bounds.max_deletes - deleted
            if left <= 0:
                self._over(report, ClassStatus.CAPPED, kept)
                return
            begun_at = pace.monotonic()
            batch = self._batch(report, kept, cursor, min(rows, left))
            if batch.cursor is None:
                self._over(report, ClassStatus.DONE, kept)
                return
            cursor, deleted = batch.cursor, deleted + batch.deleted
            if kept.name in OBJECT_CLASSES and not self.done.objects.unanswered:
                drain(self.effects.database, self.effects.storage, self.done.objects, self.now)
            pace.sleep(pace.rest * (pace.monotonic() - begun_at))

    def _batch(self, report: ClassReport, kept: RetentionClass, cursor: Cursor | None, limit: int) -> Batch:
        """One transaction: the lease is held, rows go, and what was done is written down."""
        with self.effects.database.connection() as connection, connection.transaction():
            exclusive.keep(connection, self.lease)
            batch = kept.delete(connection, report.before, cursor, limit, self.now)
            if not store.advance(connection, self.begun.cleanup_id, kept.name, batch, cursor):
                raise _Stopped
        self.done.rows[kept.name] += batch.deleted
        self.done.bytes += batch.bytes
        return batch

    def _over(
        self,
        report: ClassReport,
        status: ClassStatus,
        kept: RetentionClass | None = None,
        counted: tuple[int, int] | None = None,
    ) -> None:
        with self.effects.database.connection() as connection:
            oldest = kept.use(connection, self.now).oldest_at if kept is not None else None
            store.end_class(
                connection,
                self.begun.cleanup_id,
                report.name,
                status,
                oldest_left_at=oldest,
                counted=counted,
            )

    def _note(self, report: ClassReport, error: Exception) -> None:
        """Count a failure. Of the driver's only the class is told: its message may quote a row."""
        self.done.errors += 1
        told = type(error).__name__ if isinstance(error, psycopg.Error) else str(error)
        _LOG.error("a batch failed", extra={"class": report.name, "error": told})
        with self.effects.database.connection() as connection:
            store.note_error(connection, self.begun.cleanup_id, report.name, told, MAX_ERRORS)
