"""The acts of the cleaner for the crash matrix, and the invariants that hold at a crash and after the recovery."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.model import MessageKind
from dpp.lifecycle.flow.store import NewMessage
from dpp.lifecycle.retention.cleaner import clean
from dpp.lifecycle.retention.control import CleanerEffects
from dpp.lifecycle.retention.model import Cleanup
from dpp.platform.db.postgres import Connection
from tests.lifecycle.environment import TABLES
from tests.retention.environment import NIGHT, Environment
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import CrashPoint, FaultInjector
from tests.support.crashable import crashable_database, crashable_storage
from tests.support.saved_tables import SavedTables

LATER = NIGHT + timedelta(minutes=5)
"""By now the lease of a cleaner that died at night has expired."""
_ROWS = {
    "tasks": "SELECT task_id FROM lifecycle_tasks",
    "events": "SELECT event_id FROM lifecycle_events",
    "seen": "SELECT event_id FROM lifecycle_seen",
    "prompts": "SELECT object_key FROM lifecycle_objects WHERE kind = 'PROMPT'",
    "results": "SELECT object_key FROM lifecycle_objects WHERE kind = 'RESULT'",
}
"""The rows of each class."""
type Figures = dict[str, tuple[int, int, int]]
"""By class, over all cleanups: how many rows were examined, how many were deleted, and how many bytes."""
_NOTHING = (0, 0, 0)


def announce(connection: Connection, cleanup: Cleanup, now: datetime | None) -> None:
    """Send the report of a night under a new key each time, so that a second report is seen."""
    message = NewMessage(MessageKind.REPORT, None, str(uuid4()), f"{cleanup.deleted} rows deleted")
    store.add_message(connection, message, now)


@dataclass(frozen=True, slots=True)
class Act:
    """The act of a process, the classes, the state before it, the rows that stay, and the calls that it must make.

    `may_stop`: an operator stops the cleanup, before or after the crash, and rows that were due may stay.
    """

    perform: Callable[[CleanerEffects], object]
    classes: tuple[str, ...]
    before: "Callable[[CleanerCrashes], object]"
    kept: frozenset[str]
    calls: frozenset[str]
    may_stop: bool = False


class CleanerCrashes(CrashSuite):
    """One tick of the cleaner, or one command of an operator."""

    def __init__(self, env: Environment, admin: psycopg.Connection[tuple[Any, ...]], acts: Mapping[str, Act]) -> None:
        tables = (*TABLES, "cleanups", "cleanup_classes", "exclusive_leases")
        super().__init__(SavedTables(admin, tables))
        self.env = env
        self.admin = admin
        self.acts = acts
        self.effects = env.effects
        self._clean: dict[str, Figures] = {}
        """The figures after a run without a crash."""

    def arrange(self, act: str) -> None:
        """Bring everything to where the act begins, and note the rows, figures and objects there."""
        known = {one.name: one for one in self.env.effects.classes}
        classes = [known[one] for one in self.acts[act].classes]
        self.effects = replace(self.env.effects, classes=classes, announce=announce)
        super().arrange(act)
        self._rows_before = {one: self.rows_of(one) for one in self.acts[act].classes}
        self._figures_before = self.figures()
        self._objects_before, self._objects_reported = len(self.env.bucket.objects), 0

    def set_up(self, act: str) -> None:
        """Create the state before the act."""
        self.acts[act].before(self)

    def state(self) -> dict[str, Any]:
        return deepcopy({"objects": self.env.bucket.objects, "refused": self.env.bucket.refused})

    def restore(self, state: dict[str, Any] | None) -> None:
        held = deepcopy(state or {"objects": {}, "refused": {}})
        self.env.bucket.objects, self.env.bucket.refused = held["objects"], held["refused"]

    def perform(self, act: str, injector: FaultInjector) -> None:
        with crashable_database(self.env.url, injector) as database:
            storage = crashable_storage("state", self.env.bucket, injector)
            self.acts[act].perform(replace(self.effects, database=database, storage=storage))

    def recover(self, act: str) -> None:
        """S3 refuses nothing any more, and a healthy cleaner ticks until nothing is left to do."""
        self.env.bucket.refused.clear()
        for minute in range(20):
            done = clean(self.effects, LATER + timedelta(minutes=minute))
            self._objects_reported += done.objects.deleted
            if done.cleanup is None:
                return
        raise AssertionError("the cleanup does not end")

    def record(self, act: str) -> list[CrashPoint]:
        """The calls where nothing fails; the figures of the first such run are those that every run must reach."""
        points = super().record(act)
        self.recover(act)
        self._clean.setdefault(act, self.figures())
        return points

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self.admin.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def rows_of(self, name: str) -> set[str]:
        """The keys of a class's rows."""
        return {str(row[0]) for row in self.rows(_ROWS[name])}

    def figures(self) -> Figures:
        """The sums over all reports."""
        found = self.rows("SELECT class, sum(examined), sum(deleted), sum(bytes) FROM cleanup_classes GROUP BY class")
        return {str(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in found}

    def violations_at_crash(self, act: str) -> Iterator[str]:
        """At every moment an object has a row or is to be deleted, and the figures are those of the deleted rows."""
        objects = set(self.env.bucket.objects)
        rows = {str(row[0]) for row in self.rows("SELECT object_key FROM lifecycle_objects")}
        listed = {str(row[0]) for row in self.rows("SELECT object_key FROM lifecycle_deletions")}
        if unnamed := objects - rows - listed:
            yield f"objects without a row: {sorted(unnamed)}"
        if without := rows - objects:
            yield f"rows without their object: {sorted(without)}"
        if both := rows & listed:
            yield f"rows whose object is to be deleted: {sorted(both)}"
        figures = self.figures()
        for name in self.acts[act].classes:
            before, left = self._rows_before[name], self.rows_of(name)
            if lost := (before & self.acts[act].kept) - left:
                yield f"{name} that must stay are gone: {sorted(lost)}"
            reported = figures.get(name, _NOTHING)[1] - self._figures_before.get(name, _NOTHING)[1]
            if reported != len(before) - len(left):
                yield f"{name}: {reported} are reported as deleted, {len(before) - len(left)} are gone"

    def violations(self, act: str) -> Iterator[str]:
        """All that is due is gone, and it was reported once, as after a run without a crash."""
        yield from self.violations_at_crash(act)
        yield from self._of_the_day()
        statuses = {str(row[0]) for row in self.rows("SELECT DISTINCT status FROM cleanup_classes")}
        if self.acts[act].may_stop and "STOPPED" in statuses:
            return
        if statuses != {"DONE"}:
            yield f"classes are {sorted(statuses)}"
        for name in self.acts[act].classes:
            if due := self.rows_of(name) - self.acts[act].kept:
                yield f"{name} that are due are left: {sorted(due)}"
        if not self.acts[act].may_stop and self.figures() != self._clean[act]:
            yield f"the reports have {self.figures()}, not {self._clean[act]}"
        if self._objects_reported > self._objects_before - len(self.env.bucket.objects):
            yield f"{self._objects_reported} objects are reported as deleted"

    def _of_the_day(self) -> Iterator[str]:
        if self.rows("SELECT 1 FROM lifecycle_deletions"):
            yield "objects are still to be deleted"
        daily = self.rows("SELECT status FROM cleanups WHERE kind = 'DAILY'")
        if daily != [("DONE",)]:
            yield f"the day's cleanups: {daily}"
        reports = self.rows("SELECT body FROM lifecycle_messages WHERE kind = 'REPORT'")
        deleted = self.rows(
            "SELECT sum(deleted) FROM cleanup_classes JOIN cleanups USING (cleanup_id) WHERE kind = 'DAILY'"
        )
        if reports != [(f"{deleted[0][0]} rows deleted",)]:
            yield f"the day's reports: {reports}, {deleted}"
        if self.rows("SELECT 1 FROM exclusive_leases"):
            yield "the lease was not given back"
