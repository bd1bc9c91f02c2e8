"""A house before an act, kept so that each crash begins from the same; the process that acts; and what was promised."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from dpp.platform.errors import DependencyUnavailable
from tests.retention.environment import NIGHT, Environment
from tests.support.counted_drivers import CountedDatabase, counted_storage
from tests.support.crash_points import Killed, Points

LATER = NIGHT + timedelta(minutes=5)
"""When the lease of a chamberlain who died at night is over."""
_TABLES = (
    *(
        f"lifecycle_{one}"
        for one in ("seen", "events", "tasks", "messages", "threads", "awaiting", "objects")
    ),
    *(f"lifecycle_{one}" for one in ("deletions", "heartbeats", "sequences")),
    *("cleanups", "cleanup_classes", "exclusive_leases"),
)
COUNTED = {
    "tasks": "SELECT task_id FROM lifecycle_tasks",
    "events": "SELECT event_id FROM lifecycle_events",
    "seen": "SELECT event_id FROM lifecycle_seen",
    "prompts": "SELECT object_key FROM lifecycle_objects WHERE kind = 'PROMPT'",
    "results": "SELECT object_key FROM lifecycle_objects WHERE kind = 'RESULT'",
}
"""What a class has."""
type Figures = dict[str, tuple[int, int, int]]
"""Of each class what all cleanups together examined, deleted, and its bytes."""
_NOTHING = (0, 0, 0)


class BucketClient:
    """S3's client, as far as the chamberlain uses it, over the house's bucket."""

    def __init__(self, env: Environment) -> None:
        self._house = env

    def delete_objects(self, *, Delete: Mapping[str, Any], **_: object) -> dict[str, Any]:
        """One batch."""
        refused = self._house.bucket.delete([one["Key"] for one in Delete["Objects"]])
        return {"Errors": [{"Key": key, "Code": code} for key, code in refused.items()]}


def say_once(connection: Connection, cleanup: Cleanup, now: datetime | None) -> None:
    """Tell of a night under a new key each time: what is told twice is seen twice."""
    message = NewMessage(MessageKind.REPORT, None, str(uuid4()), f"{cleanup.deleted} rows deleted")
    store.add_message(connection, message, now)


@dataclass(frozen=True, slots=True)
class Act:
    """What a process does, of which classes, what is there before, what stays, and which calls it must have met.

    `may_stop`: an operator ends the cleanup, before or behind the crash, and what was due by then may stay."""

    does: Callable[[CleanerEffects], object]
    classes: tuple[str, ...]
    before: "Callable[[CrashEnvironment], object]"
    kept: frozenset[str]
    calls: frozenset[str]
    may_stop: bool = False


@dataclass(slots=True)
class CrashEnvironment:
    """A house, what was kept of it before each act, and how it stood when the last one began."""

    env: Environment
    admin: psycopg.Connection[tuple[Any, ...]]
    effects: CleanerEffects = field(init=False)
    begun: dict[str, set[str]] = field(default_factory=dict)
    told_before: Figures = field(default_factory=dict)
    objects_before: int = 0
    objects_told: int = 0
    _kept: dict[str, tuple[dict[str, bytes], dict[str, str]]] = field(default_factory=dict)

    def arrange(self, name: str, act: Act) -> None:
        """Bring all of it to where the act begins."""
        env = self.env
        known = {one.name: one for one in env.effects.classes}
        self.effects = replace(env.effects, classes=[known[one] for one in act.classes], announce=say_once)
        self._empty()
        if name in self._kept:
            self._restore(name)
        else:
            env.bucket.objects, env.bucket.refused = {}, {}
            act.before(self)
            for table in _TABLES:
                self.rows(f"CREATE TABLE kept_{name}_{table} AS TABLE {table}")
            self._kept[name] = dict(env.bucket.objects), dict(env.bucket.refused)
        self.begun = {one: self.has(one) for one in act.classes}
        self.told_before = self.figures()
        self.objects_before, self.objects_told = len(env.bucket.objects), 0

    def _empty(self) -> None:
        emptied = ";".join(f"DELETE FROM {table}" for table in _TABLES)
        self.rows(f"SET session_replication_role = replica; {emptied}; SET session_replication_role = origin")

    def _restore(self, name: str) -> None:
        copied = ";".join(
            f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM kept_{name}_{table}"
            for table in _TABLES
        )
        self.rows(f"SET session_replication_role = replica; {copied}; SET session_replication_role = origin")
        objects, refused = self._kept[name]
        self.env.bucket.objects, self.env.bucket.refused = dict(objects), dict(refused)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Some statements; what the last of them answers."""
        cursor = self.admin.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []

    def has(self, name: str) -> set[str]:
        """The ids of a class's rows."""
        return {str(row[0]) for row in self.rows(COUNTED[name])}

    def figures(self) -> Figures:
        """What all reports say together."""
        told = self.rows(
            "SELECT class, sum(examined), sum(deleted), sum(bytes) FROM cleanup_classes GROUP BY class"
        )
        return {str(row[0]): (int(row[1]), int(row[2]), int(row[3])) for row in told}

    def play(self, act: Act, points: Points) -> None:
        """Let the process act until it is done, fails or is killed."""
        database = CountedDatabase(self.env.url, points)
        storage = counted_storage("state", BucketClient(self.env), points)
        try:
            with suppress(Killed, DependencyUnavailable):
                act.does(replace(self.effects, database=database, storage=storage))
        finally:
            database.close()
        points.land()

    def come_to_rest(self) -> None:
        """Time passes, S3 refuses nothing any more, and a healthy successor is fired until nothing is left to do."""
        self.env.bucket.refused.clear()
        for minute in range(20):
            done = clean(self.effects, LATER + timedelta(minutes=minute))
            self.objects_told += done.objects.deleted
            if done.cleanup is None:
                return
        raise AssertionError("the cleanup has no end")


def torn(crash_env: CrashEnvironment, act: Act) -> Iterator[str]:
    """What must hold at every moment, and does not: no orphan, and figures that tell of what is gone and no more."""
    objects = set(crash_env.env.bucket.objects)
    rows = {str(row[0]) for row in crash_env.rows("SELECT object_key FROM lifecycle_objects")}
    listed = {str(row[0]) for row in crash_env.rows("SELECT object_key FROM lifecycle_deletions")}
    if unnamed := objects - rows - listed:
        yield f"objects that nothing tells of: {sorted(unnamed)}"
    if without := rows - objects:
        yield f"rows without their object: {sorted(without)}"
    if both := rows & listed:
        yield f"rows whose object is to be deleted: {sorted(both)}"
    figures = crash_env.figures()
    for name in act.classes:
        left = crash_env.has(name)
        if lost := (crash_env.begun[name] & act.kept) - left:
            yield f"{name} that are kept are gone: {sorted(lost)}"
        told = figures.get(name, _NOTHING)[1] - crash_env.told_before.get(name, _NOTHING)[1]
        if told != len(crash_env.begun[name]) - len(left):
            yield f"{name}: {told} are said to be deleted, {len(crash_env.begun[name]) - len(left)} are gone"


def unfinished(crash_env: CrashEnvironment, act: Act, clean: Figures) -> Iterator[str]:
    """What must hold when a successor is through: all that is due is gone, and it was told once; `clean`: as a run
    without a crash has it."""
    yield from torn(crash_env, act)
    if crash_env.rows("SELECT 1 FROM lifecycle_deletions"):
        yield "objects are left on the list"
    daily = crash_env.rows("SELECT status FROM cleanups WHERE kind = 'DAILY'")
    if daily != [("DONE",)]:
        yield f"the day's cleanups: {daily}"
    told = crash_env.rows("SELECT body FROM lifecycle_messages WHERE kind = 'REPORT'")
    deleted = crash_env.rows(
        "SELECT sum(deleted) FROM cleanup_classes JOIN cleanups USING (cleanup_id) WHERE kind = 'DAILY'"
    )
    if told != [(f"{deleted[0][0]} rows deleted",)]:
        yield f"the day's reports: {told}, {deleted}"
    if crash_env.rows("SELECT 1 FROM exclusive_leases"):
        yield "the lease was not given back"
    over = {str(row[0]) for row in crash_env.rows("SELECT DISTINCT status FROM cleanup_classes")}
    if act.may_stop and "STOPPED" in over:
        return
    if over != {"DONE"}:
        yield f"classes are {sorted(over)}"
    for name in act.classes:
        if due := crash_env.has(name) - act.kept:
            yield f"{name} that are due are left: {sorted(due)}"
    if not act.may_stop and crash_env.figures() != clean:
        yield f"the reports tell of {crash_env.figures()}, not of {clean}"
    if crash_env.objects_told > crash_env.objects_before - len(crash_env.env.bucket.objects):
        yield f"{crash_env.objects_told} objects are said to be deleted"
