"""The parts of a cleanup around one test: real Postgres, a bucket in memory, and rows of any age."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from psycopg.types.json import Jsonb

from dpp.lifecycle.retention import store
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.classes import CLASSES
from dpp.lifecycle.retention.cleaner import CleanerReport, clean
from dpp.lifecycle.retention.control import CleanerEffects, Pace
from dpp.lifecycle.retention.model import ClassReport, Cleanup
from dpp.lifecycle.retention.periods import Retention
from dpp.lifecycle.retention.registry import ordered
from dpp.platform.db.postgres import Database
from tests.support.clock import MovedClock
from tests.support.memory_s3 import MemoryS3
from tests.support.stored import Stored

SEOUL = ZoneInfo("Asia/Seoul")
NIGHT = datetime(2026, 11, 28, 18, 5, tzinfo=UTC)
"""03:05 in Seoul on the 29th."""
DAY = timedelta(days=1)
SUBJECT = Jsonb({"place": "o/r", "title": "a title"})


@dataclass(slots=True)
class Environment(Stored):
    """The parts, short ways to insert rows, and the cleanup. `slept`: the seconds of each pause."""

    url: str
    database: Database
    bucket: MemoryS3 = field(default_factory=MemoryS3)
    clock: MovedClock = field(default_factory=lambda: MovedClock(NIGHT))
    slept: list[float] = field(default_factory=list)
    effects: CleanerEffects = field(init=False)

    def __post_init__(self) -> None:
        self.effects = CleanerEffects(
            database=self.database,
            storage=self.bucket.store(),
            classes=ordered(CLASSES, Retention()),
            retention=Retention(),
            zone=SEOUL,
            bounds=Bounds(max_deletes=1_000, factor=10, floor=200),
            pace=Pace(batch_rows=3, monotonic=self._monotonic, sleep=self.slept.append),
        )

    def change(self, **changes: Any) -> None:
        """Replace some of the effects."""
        self.effects = replace(self.effects, **changes)

    def _monotonic(self) -> float:
        self.clock()
        return self.clock.seconds

    def tick(self, now: datetime = NIGHT) -> CleanerReport:
        return clean(self.effects, now)

    def clean(self, now: datetime = NIGHT) -> Cleanup:
        """Ticks until the cleanup is done."""
        for _ in range(100):
            done = self.tick(now)
            assert done.cleanup is not None, "no cleanup was due"
            if done.cleanup.is_done:
                return done.cleanup
        raise AssertionError("the cleanup has no end")

    def report(self, name: str) -> ClassReport:
        """The report of the latest cleanup about a class."""
        [cleanup] = self.using(store.latest, 1)
        [found] = [one for one in cleanup.classes if one.name == name]
        return found

    def execute(self, statement: str, **params: object) -> list[tuple[Any, ...]]:
        """One statement, committed, on a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def keys(self, table: str, key: str) -> set[str]:
        return {str(row[0]) for row in self.execute(f"SELECT {key} FROM {table}")}

    def event(self, number: int, ended_at: datetime | None, *, seen_at: datetime | None = None) -> str:
        """An event that ended at that time, or that is still open; `seen_at` is an hour earlier by default."""
        event_id, at = f"github:o/r/issues/{number}", (ended_at or NIGHT) - timedelta(hours=1)
        self.seen(event_id, seen_at or at)
        self.execute(
            "INSERT INTO lifecycle_events"
            " (event_id, source, kind, arrived_by, payload, happened_at, status, created_at)"
            " VALUES (%(id)s, 'GITHUB', 'MENTIONED', 'POLL', %(subject)s, %(at)s, 'PENDING', %(at)s)",
            id=event_id,
            subject=SUBJECT,
            at=at,
        )
        if ended_at is not None:
            params = {"id": event_id, "at": at, "ended": ended_at}
            self.execute(
                "UPDATE lifecycle_events SET status = 'DISPATCHED', dispatched_at = %(at)s WHERE event_id = %(id)s",
                **params,
            )
            self.execute(
                "UPDATE lifecycle_events SET status = %(status)s, ended_at = %(ended)s WHERE event_id = %(id)s",
                status="FAILED" if number % 2 else "COMPLETED",
                **params,
            )
        return event_id

    def seen(self, event_id: str, seen_at: datetime) -> None:
        """The id of an event that was seen at that time."""
        self.execute("INSERT INTO lifecycle_seen VALUES (%(id)s, %(at)s)", id=event_id, at=seen_at)

    def task(self, number: int, ended_at: datetime | None, *, event_id: str | None = None) -> str:
        """A task that ended at that time, or that is still open."""
        task_id, at = f"task-20261101-{number:03}", (ended_at or NIGHT) - timedelta(hours=1)
        self.execute(
            "INSERT INTO lifecycle_tasks (task_id, event_id, kind, subject, status, attempt, next_look_at, created_at)"
            " VALUES (%(id)s, %(event)s, 'MENTIONED', %(subject)s, 'PENDING', 0, %(at)s, %(at)s)",
            id=task_id,
            event=event_id or f"of:{task_id}",
            subject=SUBJECT,
            at=at,
        )
        self.execute(
            "UPDATE lifecycle_tasks SET status = 'IN_PROGRESS', attempt = 1, started_at = %(at)s"
            " WHERE task_id = %(id)s",
            id=task_id,
            at=at,
        )
        if ended_at is not None:
            self.end_task(task_id, ended_at)
        return task_id

    def end_task(self, task_id: str, ended_at: datetime) -> None:
        self.execute(
            "UPDATE lifecycle_tasks SET status = 'COMPLETED', outcome = 'SUCCEEDED', ended_at = %(at)s"
            " WHERE task_id = %(id)s",
            id=task_id,
            at=ended_at,
        )

    def message(self, number: int, sent_at: datetime | None, *, task_id: str = "task-20261101-999") -> str:
        """A message that was sent at that time, or that is still pending."""
        message_id = f"msg-20261101-{number:03}"
        self.execute(
            "INSERT INTO lifecycle_messages (message_id, kind, task_id, dedup_key, body, status, attempts,"
            " next_attempt_at, created_at)"
            " VALUES (%(id)s, 'TASK_RESULT', %(task)s, %(id)s, 'words', 'PENDING', 0, %(at)s, %(at)s)",
            id=message_id,
            task=task_id,
            at=sent_at or NIGHT - 40 * DAY,
        )
        if sent_at is not None:
            self.execute(
                "UPDATE lifecycle_messages SET status = 'SENT', sent_at = %(at)s WHERE message_id = %(id)s",
                id=message_id,
                at=sent_at,
            )
        return message_id

    def object(self, key: str, kind: str, written_at: datetime, *, task_id: str = "task-20261101-999") -> str:
        """An object of a task, with its row."""
        self.bucket.objects[key] = b"seventeen bytes.."
        self.execute(
            "INSERT INTO lifecycle_objects VALUES (%(key)s, %(kind)s, %(task)s, 17, %(at)s)",
            key=key,
            kind=kind,
            task=task_id,
            at=written_at,
        )
        return key

    def thread(self, task_id: str, created_at: datetime) -> None:
        """A task's thread."""
        self.execute("INSERT INTO lifecycle_threads VALUES (%(id)s, 'C1', %(id)s, %(at)s)", id=task_id, at=created_at)

    def cleaned(self, day: datetime, name: str, deleted: int) -> UUID:
        """A past daily cleanup that deleted so many rows of a class."""
        [[cleanup_id]] = self.execute(
            "INSERT INTO cleanups (cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at,"
            " usage, warnings)"
            " VALUES (gen_random_uuid(), 'DAILY', %(day)s, 'the clock', false, 'DONE', %(at)s, %(at)s, '[]', '[]')"
            " RETURNING cleanup_id",
            day=day.date(),
            at=day,
        )
        self.execute(
            "INSERT INTO cleanup_classes (cleanup_id, class, position, status, before, examined, deleted)"
            " VALUES (%(id)s, %(class)s, 0, 'DONE', %(at)s, %(deleted)s, %(deleted)s)",
            **{"id": cleanup_id, "class": name, "at": day, "deleted": deleted},
        )
        found: UUID = cleanup_id
        return found
