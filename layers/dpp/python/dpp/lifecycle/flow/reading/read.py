"""What an operator sees: pages of events and tasks, one event or task with what belongs to it, who waits, what is open.

`whole` reads a task's objects, too; everything else asks rows alone, each time those of one moment.
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
class TaskWithObjects:
    """A task with its messages, and the objects that stand, each with what is in it."""

    task: Task
    messages: list[Message]
    objects: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event, and its task where there is one yet or still."""

    event: Event
    task: Task | None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task with all rows that belong to it; `event` is None where it is gone, `question` where none is asked."""

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
    found = read_rows.page_events(connection, below=begin, limit=limit + 1, status=status)
    shown = found[:limit]
    return EventPage([one for _, one in shown], shown[-1][0] if len(found) > limit else None)


def tasks(connection: Connection, *, below: int | None, limit: int, status: TaskStatus | None) -> TaskPage:
    """One page of tasks."""
    begin = NEWEST if below is None else below
    found = read_rows.page_tasks(connection, below=begin, limit=limit + 1, status=status)
    shown = found[:limit]
    return TaskPage([one for _, one in shown], shown[-1][0] if len(found) > limit else None)


def whole(connection: Connection, objects: Objects, task_id: str) -> TaskWithObjects:
    """One task, never half of it (LIFE-12). Raises TaskNotFound, StorageUnavailable.

    Its rows are those of one moment. An object that is gone is looked for again among the rows: with its row gone the
    chamberlain is deleting the task's things, and all of it counts as gone. A row that stands is of an object that is
    yet to be written. A prompt, which is kept for less long than its task, is there or not.
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
    """One event. Raises EventNotFound, which knows whether there was one."""
    with one_snapshot(connection):
        found = read_rows.find_event(connection, event_id)
        if found is None:
            raise EventNotFound(read_rows.seen_at(connection, event_id))
        return EventRecord(found, read_rows.tasks_of_events(connection, [event_id]).get(event_id))


def task(connection: Connection, task_id: str) -> TaskRecord:
    """One task with all of its rows, and none of its objects. Raises TaskNotFound."""
    with one_snapshot(connection):
        row = _placed(connection, task_id)
        return TaskRecord(
            row,
            read_rows.find_event(connection, row.task.event_id),
            questions(connection, [row.task]).get(task_id),
            read_rows.messages_of(connection, task_id),
            read_rows.objects_of(connection, task_id),
        )


def task_ids(connection: Connection, events_shown: Sequence[Event]) -> Mapping[str, str]:
    """Which tasks were made of these events, by the events' ids."""
    found = read_rows.tasks_of_events(connection, [one.event_id for one in events_shown])
    return {event_id: task.task_id for event_id, task in found.items()}


def waiting(connection: Connection, limit: int) -> list[tuple[Task, Question]]:
    """Tasks that wait for a person, and what each is asked, whoever waits longest first."""
    return read_rows.questions(connection, limit=limit)


def questions(connection: Connection, tasks_shown: Sequence[Task]) -> Mapping[str, Question]:
    """What is asked for those of these tasks that wait for a person, by the tasks' ids."""
    ids = [one.task_id for one in tasks_shown if one.waits_for_person]
    found = read_rows.questions(connection, limit=len(ids), task_ids=ids) if ids else []
    return {one.task_id: question for one, question in found}


def outgoing(connection: Connection, *, sent: bool, limit: int) -> list[OutgoingMessage]:
    """Messages that are not sent, the oldest first; or those that were, the newest first."""
    return read_rows.sent(connection, limit) if sent else read_rows.unsent(connection, limit)


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


def _placed(connection: Connection, task_id: str) -> TaskRow:
    row = read_rows.find_task(connection, task_id)
    if row is None:
        raise TaskNotFound
    return row


def _is_half_deleted(task: Task, rows: list[ObjectRow]) -> bool:
    """Of an ended task all results stand, or none does any more: they were entered at one moment."""
    results = {row.object_key for row in rows if row.kind is ObjectKind.RESULT}
    ended = task.status is TaskStatus.COMPLETED
    return ended and bool(results) and result_key(task.task_id) not in results
