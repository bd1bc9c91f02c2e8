"""The chamberlain (cleaner): deletes data past its retention period every night, class by class (LIFE-8).

A cleanup and each of its classes are rows from the start. The transaction of each batch also writes its counts and the
cursor. So a crash at any point loses at most one uncommitted batch, the next tick continues at the cursor, and the
report is exact. Only one cleaner works at a time: each batch checks a lease, so that a cleaner that was suspended past
its lease deletes nothing.

First the due rows of a class are counted. If they are far more than usual, nothing is deleted (`breaker.py`) until an
operator decides. A failed batch is counted and tried again at the next tick with half the rows; after five failures the
class waits for the next night. Until then the classes that it points at wait as well: examined now, their rows would be
blocked and stay a night longer. The cleaner pauses after each batch for as long as the batch took, so that other work
can proceed.
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
from dpp.lifecycle.retention.control import CleanerEffects, allowance, end, start_daily
from dpp.lifecycle.retention.deletions import DeletionReport, delete_listed
from dpp.lifecycle.retention.model import ClassReport, ClassStatus, Cleanup
from dpp.platform.db import exclusive
from dpp.platform.db.exclusive import Lease, LeaseOver, LeaseTaken
from dpp.platform.db.retention import Batch, Cursor, RetentionBusy, RetentionClass
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached

_LOG = logging.getLogger("dpp.lifecycle.retention.cleaner")
LEASE_NAME = "CHAMBERLAIN"
LEASE_SECONDS = 150
"""Longer than the cleaner's function may run (`cdk/dpp_cdk/settings/timings.py`)."""
MAX_ERRORS = 5


@dataclass(slots=True)
class CleanerReport:
    """The result of one tick: deleted rows by class, failed batches, deleted objects. `cleanup`: the cleanup after this
    tick, None if none was due."""

    cleanup: Cleanup | None = None
    rows: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    errors: int = 0
    objects: DeletionReport = field(default_factory=DeletionReport)


class _Stopped(Exception):
    """An operator stopped the class during a batch, which is rolled back."""


def clean(effects: CleanerEffects, now: datetime | None = None) -> CleanerReport:
    """One tick: start the day's cleanup if it is due, continue the running one, delete listed objects from S3.

    Raises CleanupRunning if another cleaner is working, and PostgresUnavailable if the cleanup can't start.
    """
    deadline, done = effects.pace.monotonic() + effects.pace.seconds, CleanerReport()
    database = effects.database
    try:
        with exclusive.held(database, LEASE_NAME, str(uuid4()), ttl_seconds=LEASE_SECONDS, now=now) as lease:
            with database.connection() as connection:
                heartbeat.record(connection, Role.CHAMBERLAIN, now)
                running = store.running(connection) or start_daily(connection, effects, now)
            if running is not None:
                _Tick(effects, running, lease, done, deadline, now).process()
            while delete_listed(database, effects.storage, done.objects, now):
                if effects.pace.monotonic() > deadline:
                    break
    except LeaseTaken as taken:
        since = taken.started_at.isoformat(timespec="seconds")
        raise CleanupRunning(f"Another cleaner has been working since {since}: wait for its end.") from None
    except LeaseOver:
        _LOG.warning("the lease has expired, and another cleaner has taken over")
    return done


@dataclass(frozen=True, slots=True)
class _Tick:
    """One tick's work on the classes of a cleanup."""

    effects: CleanerEffects
    cleanup: Cleanup
    lease: Lease
    done: CleanerReport
    deadline: float
    now: datetime | None

    def process(self) -> None:
        """Process each open class while time remains; end the cleanup when all classes are finished."""
        known = {one.name: one for one in self.effects.classes}
        delayed: set[str] = set()
        for report in self.cleanup.classes:
            kept = known.get(report.name)
            if report.status.is_over or not self._in_time():
                continue
            if report.name in delayed or not self._class(report, kept):
                delayed.update(kept.points_at if kept is not None else ())
        found = self.effects.database.using(store.find, self.cleanup.cleanup_id)
        if found is not None and all(one.status.is_over for one in found.classes):
            found = end(self.effects, found.cleanup_id, self.now)
        self.done.cleanup = found

    def _in_time(self) -> bool:
        return self.effects.pace.monotonic() < self.deadline

    def _class(self, report: ClassReport, kept: RetentionClass | None) -> bool:
        """Continue one class. Returns False after a failure, which is counted and delays only the classes that it
        points at."""
        try:
            if kept is None:  # a class of another release
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
        """Ask the breaker, once per class and cleanup."""
        with self.effects.database.connection() as connection:
            with connection.transaction():
                kept.prepare(connection, self.now)
            allowed = allowance(connection, self.effects, kept.name)
            due = kept.due(connection, report.before, allowed + 1)
            if due <= allowed or self.cleanup.over_breaker:
                store.let_through(connection, self.cleanup.cleanup_id, kept.name, due, allowed)
                return True
        extra = {"class": kept.name, "allowed": allowed}
        _LOG.error("the breaker tripped: far more rows than usual are due, none is deleted", extra=extra)
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
                delete_listed(self.effects.database, self.effects.storage, self.done.objects, self.now)
            pace.sleep(pace.rest * (pace.monotonic() - begun_at))

    def _batch(self, report: ClassReport, kept: RetentionClass, cursor: Cursor | None, limit: int) -> Batch:
        """One transaction: check the lease, delete rows, write the counts and the cursor."""
        with self.effects.database.connection() as connection, connection.transaction():
            exclusive.keep(connection, self.lease)
            batch = kept.delete(connection, report.before, cursor, limit, self.now)
            if not store.advance(connection, self.cleanup.cleanup_id, kept.name, batch, cursor):
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
                connection, self.cleanup.cleanup_id, report.name, status, oldest_left_at=oldest, counted=counted
            )

    def _note(self, report: ClassReport, error: Exception) -> None:
        """Count a failure. A driver's message may quote a row, so only its class is kept."""
        self.done.errors += 1
        message = type(error).__name__ if isinstance(error, psycopg.Error) else str(error)
        _LOG.error("a batch failed", extra={"class": report.name, "error": message})
        self.effects.database.using(store.note_error, self.cleanup.cleanup_id, report.name, message, MAX_ERRORS)
