"""Queries for operators: pages of events and tasks, one event or task with its rows, open questions, the backlog.

`whole` also reads a task's objects from S3. Everything else reads rows only, in one snapshot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.errors import EventNotFound, TaskNotFound
from dpp.lifecycle.flow.machine import EventStatus, TaskStatus
from dpp.lifecycle.flow.model import Event, Message, ObjectKind, Task, result_key
from dpp.lifecycle.flow.ports import Objects
from dpp.lifecycle.flow.reading import read_rows
from dpp.lifecycle.flow.reading.read_rows import ObjectRow, OutgoingMessage, Question, TaskRow
from dpp.platform.db.postgres import Connection, one_snapshot

NEWEST = 2**63 - 1
OLD_DAYS = 7
"""Older threads and questions are overdue (LIFE-10)."""


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events, the newest first. `below` is the start of the next page, None at the end."""

    events: list[Event]
    below: int | None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Tasks, the newest first. `below` is the start of the next page, None at the end."""

    tasks: list[Task]
    below: int | None


@dataclass(frozen=True, slots=True)
class TaskWithObjects:
    """A task with its messages and the contents of its objects."""

    task: Task
    messages: list[Message]
    objects: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event, and its task if there is one."""

    event: Event
    task: Task | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task with all its rows. `event` is None if it was deleted, `question` if none is open."""

    row: TaskRow
    event: Event | None
    question: Question | None
    messages: list[OutgoingMessage]
    objects: list[ObjectRow]

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.row.task


@dataclass(frozen=True, slots=True)
class Backlog:
    """Counts of open items by status, and the age of the oldest in seconds (0 if there is none): PENDING events and
    messages, and tasks that have not ended and do not wait for a person.

    `old_threads`, `old_awaiting`: older than a week (LIFE-10).
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
    found = read_rows.page_events(connection, below=begin, limit=limit + 1, status=status)
    page = found[:limit]
    return EventPage([one for _, one in page], page[-1][0] if len(found) > limit else None)


def tasks(connection: Connection, *, below: int | None, limit: int, status: TaskStatus | None) -> TaskPage:
    """One page of tasks."""
    begin = NEWEST if below is None else below
    found = read_rows.page_tasks(connection, below=begin, limit=limit + 1, status=status)
    page = found[:limit]
    return TaskPage([one for _, one in page], page[-1][0] if len(found) > limit else None)


def whole(connection: Connection, objects: Objects, task_id: str) -> TaskWithObjects:
    """One task with all its objects, never with some of them (LIFE-12). Raises TaskNotFound, StorageUnavailable.

    The rows are read in one snapshot. If an object is missing, its row is read again. If the row is gone as well, the
    cleaner is deleting the task's objects, and the task counts as deleted. If the row exists, the object is yet to be
    written. A prompt may be missing, since its retention period is shorter.
    """
    with one_snapshot(connection):
        task = _placed(connection, task_id).task
        messages = [one.message for one in read_rows.messages_of(connection, task_id)]
        rows = read_rows.objects_of(connection, task_id)
    if _is_half_deleted(task, rows):
        raise TaskNotFound
    found: dict[str, bytes] = {}
    for row in rows:
        body = objects.get(row.object_key)
        if body is not None:
            found[row.object_key] = body
        elif row.kind is not ObjectKind.PROMPT and not read_rows.object_stands(connection, row.object_key):
            raise TaskNotFound
    return TaskWithObjects(task, messages, found)


def event(connection: Connection, event_id: str) -> EventRecord:
    """One event. Raises EventNotFound, which says whether there was one."""
    with one_snapshot(connection):
        found = read_rows.find_event(connection, event_id)
        if found is None:
            raise EventNotFound(read_rows.seen_at(connection, event_id))
        return EventRecord(found, read_rows.tasks_of_events(connection, [event_id]).get(event_id))


def task(connection: Connection, task_id: str) -> TaskRecord:
    """One task with all its rows, without objects. Raises TaskNotFound."""
    with one_snapshot(connection):
        row = _placed(connection, task_id)
        return TaskRecord(
            row,
            read_rows.find_event(connection, row.task.event_id),
            questions(connection, [row.task]).get(task_id),
            read_rows.messages_of(connection, task_id),
            read_rows.objects_of(connection, task_id),
        )


def task_ids(connection: Connection, events: Sequence[Event]) -> Mapping[str, str]:
    """The ids of the events' tasks, by event id."""
    found = read_rows.tasks_of_events(connection, [one.event_id for one in events])
    return {event_id: task.task_id for event_id, task in found.items()}


def waiting(connection: Connection, limit: int) -> list[tuple[Task, Question]]:
    """Tasks that wait for a person, and their questions, the longest waiting first."""
    return read_rows.questions(connection, limit=limit)


def questions(connection: Connection, tasks: Sequence[Task]) -> Mapping[str, Question]:
    """The open questions of those of the tasks that wait for a person, by task id."""
    ids = [one.task_id for one in tasks if one.waits_for_person]
    found = read_rows.questions(connection, limit=len(ids), task_ids=ids) if ids else []
    return {one.task_id: question for one, question in found}


def outgoing(connection: Connection, *, sent: bool, limit: int) -> list[OutgoingMessage]:
    """Unsent messages, the oldest first; or sent messages, the newest first."""
    return read_rows.sent(connection, limit) if sent else read_rows.unsent(connection, limit)


def backlog(connection: Connection, now: datetime | None = None) -> Backlog:
    """The backlog for metrics and operators, in one snapshot."""
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


def _placed(connection: Connection, task_id: str) -> TaskRow:
    row = read_rows.find_task(connection, task_id)
    if row is None:
        raise TaskNotFound
    return row


def _is_half_deleted(task: Task, rows: list[ObjectRow]) -> bool:
    """True if some results of an ended task are deleted: they were registered at the same time."""
    results = {row.object_key for row in rows if row.kind is ObjectKind.RESULT}
    ended = task.status is TaskStatus.COMPLETED
    return ended and bool(results) and result_key(task.task_id) not in results
