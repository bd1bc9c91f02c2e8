"""What an operator sees: pages of events and tasks, one task whole, and what is open."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle import store
from dpp.lifecycle.errors import TaskNotFound
from dpp.lifecycle.machine import EventStatus, TaskStatus
from dpp.lifecycle.model import Event, Message, ObjectKind, Task, result_key
from dpp.lifecycle.ports import Objects
from dpp.lifecycle.store import ObjectRow
from dpp.platform.postgres import Connection

NEWEST = 2**63 - 1
OLD_DAYS = 7
"""What is older is a warning: a mapping of a task that has ended, or a question that nobody answers (LIFE-10)."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, the newest first; `below` is where the next page begins, None at the end."""

    events: list[Event]
    below: int | None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks, the newest first; `below` is where the next page begins, None at the end."""

    tasks: list[Task]
    below: int | None


@dataclass(frozen=True, slots=True)
class WholeTask:
    """A task with its messages, and the objects that stand, each with what is in it."""

    task: Task
    messages: list[Message]
    objects: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is open, by status, and for how many seconds the oldest has waited (0 where none does): an event or a
    message that is PENDING, a task that has not ended and asks nobody.

    `old_threads`, `old_awaiting`: older than a week (LIFE-10). What has ended is the chamberlain's to count.
    """

    events_pending: int
    events_dispatched: int
    tasks_pending: int
    tasks_in_progress: int
    tasks_waiting_for_person: int
    messages_pending: int
    oldest_event_seconds: float
    oldest_task_seconds: float
    oldest_message_seconds: float
    old_threads: int
    old_awaiting: int


def events(connection: Connection, *, below: int | None, limit: int, status: EventStatus | None) -> EventPage:
    """One page of events."""
    begin = NEWEST if below is None else below
    found = store.page_events(connection, below=begin, limit=limit + 1, status=status)
    shown = found[:limit]
    return EventPage([one for _, one in shown], shown[-1][0] if len(found) > limit else None)


def tasks(connection: Connection, *, below: int | None, limit: int, status: TaskStatus | None) -> TaskPage:
    """One page of tasks."""
    begin = NEWEST if below is None else below
    found = store.page_tasks(connection, below=begin, limit=limit + 1, status=status)
    shown = found[:limit]
    return TaskPage([one for _, one in shown], shown[-1][0] if len(found) > limit else None)


def whole(connection: Connection, objects: Objects, task_id: str) -> WholeTask:
    """One task, never half of it (LIFE-12). Raises TaskNotFound, StorageUnavailable.

    Its rows are those of one moment. An object that is gone is looked for again among the rows: with its row gone the
    chamberlain is deleting the task's things, and all of it counts as gone. A row that stands is of an object that is
    yet to be written. A prompt, which is kept for less long than its task, is there or not.
    """
    with connection.transaction():
        store.one_snapshot(connection)
        task = store.find_task(connection, task_id)
        if task is None:
            raise TaskNotFound
        messages = store.messages_of(connection, task_id)
        rows = store.objects_of(connection, task_id)
    if _is_half_deleted(task, rows):
        raise TaskNotFound
    found: dict[str, bytes] = {}
    for row in rows:
        body = objects.get(row.object_key)
        if body is not None:
            found[row.object_key] = body
        elif row.kind is not ObjectKind.PROMPT and not store.object_stands(connection, row.object_key):
            raise TaskNotFound
    return WholeTask(task, messages, found)


def backlog(connection: Connection, now: datetime | None = None) -> Backlog:
    """The figures that metrics and operators are told, of one moment."""
    row = store.backlog(connection, OLD_DAYS, now)
    asof: datetime = row.pop("asof")

    def age(name: str) -> float:
        since: datetime | None = row.pop(name)
        return 0.0 if since is None else max(0.0, (asof - since).total_seconds())

    return Backlog(
        oldest_event_seconds=age("oldest_event_at"),
        oldest_task_seconds=age("oldest_task_at"),
        oldest_message_seconds=age("oldest_message_at"),
        **row,
    )


def _is_half_deleted(task: Task, rows: list[ObjectRow]) -> bool:
    """Of an ended task all results stand, or none does any more: they were entered at one moment."""
    results = {row.object_key for row in rows if row.kind is ObjectKind.RESULT}
    ended = task.status is TaskStatus.COMPLETED
    return ended and bool(results) and result_key(task.task_id) not in results
