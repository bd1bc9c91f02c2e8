"""SQL for operators and metrics; that of the roles is in `store`.

A row whose subject this version can't read is returned without it, so that one row does not fail a page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from dpp.lifecycle.flow.machine import EventStatus, TaskStatus
from dpp.lifecycle.flow.model import Event, Message, ObjectKind, Subject, Task, Thread
from dpp.lifecycle.flow.store import event_of_row
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.rows import from_row, rows_as
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow.reading", "read.sql")
_UNREADABLE = {"place": "?", "title": "(this version can't read what it is about)"}


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One row of `lifecycle_objects`."""

    object_key: str
    kind: ObjectKind
    bytes: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person. `asked_at`: when the task began to wait. `told_at`: when the message was sent, None if it
    was not. `message_id` and `body` are None if the message was deleted."""

    message_id: str | None
    body: str | None
    asked_at: datetime
    told_at: datetime | None


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message and its place in the queue. `next_attempt_at`: no notifier sends it earlier. `behind`: the unsent
    message of its task that precedes it."""

    message: Message
    next_attempt_at: datetime
    behind: str | None


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task, the time of its next check, and its thread if it is known."""

    task: Task
    next_look_at: datetime
    thread: Thread | None
    thread_since: datetime | None


def page_events(
    connection: Connection, *, below: int, limit: int, status: EventStatus | None
) -> list[tuple[int, Event]]:
    """Events with their sequences, the newest first."""
    params = {"below": below, "limit": limit, "status": status}
    return [(row["sequence"], _event(row)) for row in named_rows(connection, QUERIES["page_events"], params)]


def page_tasks(connection: Connection, *, below: int, limit: int, status: TaskStatus | None) -> list[tuple[int, Task]]:
    """Tasks with their sequences, the newest first."""
    params = {"below": below, "limit": limit, "status": status}
    return [(row["sequence"], _task(row)) for row in named_rows(connection, QUERIES["page_tasks"], params)]


def find_event(connection: Connection, event_id: str) -> Event | None:
    """An event by its id."""
    rows = named_rows(connection, QUERIES["event"], {"event_id": event_id})
    return _event(rows[0]) if rows else None


def seen_at(connection: Connection, event_id: str) -> datetime | None:
    """Return the arrival time of an event, None if its id is not known."""
    row = connection.execute(QUERIES["seen_at"], {"event_id": event_id}).fetchone()
    return None if row is None else row[0]


def tasks_of_events(connection: Connection, event_ids: Sequence[str]) -> Mapping[str, Task]:
    """The events' tasks, by event id."""
    rows = named_rows(connection, QUERIES["tasks_of_events"], {"event_ids": list(event_ids)})
    return {row["event_id"]: _task(row) for row in rows}


def find_task(connection: Connection, task_id: str) -> TaskRow | None:
    """A task by its id."""
    rows = named_rows(connection, QUERIES["task"], {"task_id": task_id})
    if not rows:
        return None
    [row] = rows
    thread = None if row["channel"] is None else Thread(row["channel"], row["thread_ts"])
    return TaskRow(_task(row), row["next_look_at"], thread, row["thread_at"])


def questions(
    connection: Connection, *, limit: int, task_ids: Sequence[str] | None = None
) -> list[tuple[Task, Question]]:
    """Tasks that wait for a person, of all or of these ids, the longest waiting first."""
    params = {"limit": limit, "task_ids": None if task_ids is None else list(task_ids)}
    return [
        (_task(row), Question(row["message_id"], row["question"], row["asked_at"], row["told_at"]))
        for row in named_rows(connection, QUERIES["questions"], params)
    ]


def messages_of(connection: Connection, task_id: str) -> list[OutgoingMessage]:
    """A task's messages in their order."""
    return _outgoing(connection, "messages_of_task", {"task_id": task_id})


def unsent(connection: Connection, limit: int) -> list[OutgoingMessage]:
    """Unsent messages, the oldest first."""
    return _outgoing(connection, "unsent", {"limit": limit})


def sent(connection: Connection, limit: int) -> list[OutgoingMessage]:
    """Sent messages, the newest first."""
    return _outgoing(connection, "sent", {"limit": limit})


def objects_of(connection: Connection, task_id: str) -> list[ObjectRow]:
    """A task's objects, by key."""
    return rows_as(ObjectRow, connection, QUERIES["objects_of_task"], {"task_id": task_id})


def object_stands(connection: Connection, key: str) -> bool:
    """True if the object has a row."""
    return connection.execute(QUERIES["object_stands"], {"object_key": key}).fetchone() is not None


def _outgoing(connection: Connection, query: str, params: Mapping[str, object]) -> list[OutgoingMessage]:
    return [
        OutgoingMessage(from_row(Message, row), row["next_attempt_at"], row["behind"])
        for row in named_rows(connection, QUERIES[query], params)
    ]


def _event(row: Mapping[str, Any]) -> Event:
    return event_of_row(_readable(row, "payload"))


def _task(row: Mapping[str, Any]) -> Task:
    return from_row(Task, _readable(row, "subject"))


def _readable(row: Mapping[str, Any], column: str) -> Mapping[str, Any]:
    try:
        Subject.model_validate(row[column])
    except ValidationError:
        return {**row, column: _UNREADABLE}
    return row
