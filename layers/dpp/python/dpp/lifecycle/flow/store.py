"""SQL of events, tasks, messages and their threads and objects; queries of operators are in `reading/read_rows.py`.

A compare-and-swap that matches no row returns None or False. `now` replaces the clock in tests; in production it is
None, and Postgres's clock is used (D1).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from dpp.lifecycle.flow.machine import EventStatus, TaskOutcome
from dpp.lifecycle.flow.model import Event, Message, MessageKind, StateObject, Task, Thread
from dpp.platform.db.clock import present_time
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.rows import from_row, row_as
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow", "queries.sql")
clock = present_time
_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to write. A message with the same key is written once."""

    kind: MessageKind
    task_id: str | None
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this notifier has leased, and the thread of its task if it is known."""

    message: Message
    thread: Thread | None


def next_id(connection: Connection, name: Literal["task", "msg"], now: datetime | None = None) -> str:
    """The next id, such as `task-20260101-001`, numbered per day in UTC (LIFE-11). Others wait for the end of the
    transaction."""
    (row,) = connection.execute(QUERIES["next_number"], {"name": name, "now": now}).fetchall()
    return f"{name}-{row[0]}-{row[1]:03}"


def pending_events(connection: Connection) -> Iterator[str]:
    """The ids of all PENDING events, oldest first, by keyset pages: an event that can't be dispatched delays no
    other."""
    after = 0
    while True:
        params = {"after": after, "limit": _PAGE_SIZE}
        rows = connection.execute(QUERIES["pending_events"], params).fetchall()
        yield from (str(row[0]) for row in rows)
        if len(rows) < _PAGE_SIZE:
            return
        after = rows[-1][1]


def dispatch_event(connection: Connection, event_id: str, now: datetime | None = None) -> Event | None:
    """PENDING to DISPATCHED; the row is locked until the transaction ends. None if another dispatcher has it, or had
    it."""
    rows = named_rows(connection, QUERIES["dispatch_event"], {"event_id": event_id, "now": now})
    return event_of_row(rows[0]) if rows else None


def insert_task(connection: Connection, task_id: str, event_id: str, now: datetime | None = None) -> bool:
    """Create the PENDING task of an event. Returns False if an event of this id has a task."""
    params = {"task_id": task_id, "event_id": event_id, "now": now}
    return connection.execute(QUERIES["insert_task"], params).rowcount == 1


def end_events(connection: Connection, limit: int, now: datetime | None = None) -> list[EventStatus]:
    """End up to `limit` events as their tasks ended, or as FAILED if the task no longer exists. Returns the new
    statuses."""
    params = {"limit": limit, "now": now}
    rows = connection.execute(QUERIES["end_events"], params).fetchall()
    rows += connection.execute(QUERIES["fail_orphans"], params).fetchall()
    return [EventStatus(row[0]) for row in rows]


def start_tasks(connection: Connection, limit: int, now: datetime | None = None) -> int:
    """PENDING to IN_PROGRESS for up to `limit` tasks; returns how many."""
    return connection.execute(QUERIES["take_on_tasks"], {"limit": limit, "now": now}).rowcount


def claim_task(connection: Connection, due: datetime, lease_seconds: int, now: datetime | None = None) -> Task | None:
    """Lease a task that was due to be checked at `due`; None if there is none."""
    return _task_of(connection, "claim_task", {"due": due, "lease_seconds": lease_seconds, "now": now})


def record_run(
    connection: Connection, task: Task, new_run_id: UUID, pause_seconds: float, now: datetime | None = None
) -> Task | None:
    """Store the id of the attempt's run. None if it has one, or if the task has changed."""
    return _move(connection, "record_run", task, now, new_run_id=new_run_id, pause_seconds=pause_seconds)


def check_later(
    connection: Connection, task: Task, pause_seconds: float, failure: str | None = None, now: datetime | None = None
) -> Task | None:
    """Postpone the next check. None if the task has changed."""
    return _move(connection, "check_later", task, now, pause_seconds=pause_seconds, failure=failure)


def next_attempt(
    connection: Connection, task: Task, failure: str, pause_seconds: float, now: datetime | None = None
) -> Task | None:
    """Start the next attempt after a pause. None if the task has changed."""
    return _move(connection, "next_attempt", task, now, failure=failure, pause_seconds=pause_seconds)


def ask_person(connection: Connection, task: Task, failure: str, now: datetime | None = None) -> Task | None:
    """Wait for a person's answer. None if the task has changed."""
    return _move(connection, "ask_person", task, now, failure=failure)


def complete(
    connection: Connection, task: Task, outcome: TaskOutcome, failure: str | None, now: datetime | None = None
) -> Task | None:
    """IN_PROGRESS to COMPLETED. None if the task has changed."""
    return _move(connection, "complete_task", task, now, outcome=outcome, failure=failure)


def take_answer(
    connection: Connection, task_id: str, answer: str, *, again: bool, now: datetime | None = None
) -> Task | None:
    """Start the next attempt with a person's answer. None if no answer is awaited.

    Without `again`, a repetition of the last answer is not accepted.
    """
    params = {"task_id": task_id, "answer": answer, "again": again, "now": now}
    return _task_of(connection, "take_answer", params)


def register(connection: Connection, task: Task, objects: Sequence[StateObject], now: datetime | None = None) -> bool:
    """Register objects before they are written, all or none, in the caller's transaction.

    Returns False if the attempt is superseded, or if an older object under one of the keys is still being deleted.
    """
    keys = [one.key for one in objects]
    connection.execute(QUERIES["lock_objects"], {"keys": keys})
    params = _version(task, now) | {
        "keys": keys,
        "kinds": [one.kind.value for one in objects],
        "sizes": [len(one.body) for one in objects],
    }
    return connection.execute(QUERIES["register_objects"], params).rowcount == len(objects)


def add_message(connection: Connection, message: NewMessage, now: datetime | None = None) -> None:
    """Write a message, once per key."""
    params = {
        "message_id": next_id(connection, "msg", now),
        "kind": message.kind,
        "task_id": message.task_id,
        "dedup_key": message.key,
        "body": message.body,
        "now": now,
    }
    connection.execute(QUERIES["insert_message"], params)


def ask_key(task: Task) -> str:
    """The key of the attempt's question to a person. `await_answer` in queries.sql builds the same key."""
    return f"{task.task_id}/ask-{task.attempt}"


def claim_message(
    connection: Connection, due: datetime, lease_seconds: int, now: datetime | None = None
) -> Claimed | None:
    """Lease the next message to send; None if none is due."""
    params = {"due": due, "lease_seconds": lease_seconds, "now": now}
    rows = named_rows(connection, QUERIES["claim_message"], params)
    if not rows:
        return None
    channel, thread_ts = rows[0]["channel"], rows[0]["thread_ts"]
    return Claimed(from_row(Message, rows[0]), None if channel is None else Thread(channel, thread_ts))


def mark_sent(connection: Connection, message_id: str, now: datetime | None = None) -> bool:
    """PENDING to SENT. Returns False if it was SENT before."""
    return connection.execute(QUERIES["mark_sent"], {"message_id": message_id, "now": now}).rowcount == 1


def note_undelivered(
    connection: Connection, message: Message, error: str, pause_seconds: float, now: datetime | None = None
) -> bool:
    """Plan another attempt. Returns False if another notifier has made one since."""
    params = {
        "message_id": message.message_id,
        "attempts": message.attempts,
        "error": error,
        "pause_seconds": pause_seconds,
        "now": now,
    }
    return connection.execute(QUERIES["note_undelivered"], params).rowcount == 1


def keep_thread(connection: Connection, task_id: str, thread: Thread, now: datetime | None = None) -> bool:
    """Store the thread of a task. Returns False if the task no longer exists, or if it has a thread."""
    params = {"task_id": task_id, "channel": thread.channel, "thread_ts": thread.thread_ts, "now": now}
    return connection.execute(QUERIES["keep_thread"], params).rowcount == 1


def drop_thread(connection: Connection, task_id: str) -> None:
    """Delete the thread of a task."""
    connection.execute(QUERIES["drop_thread"], {"task_id": task_id})


def task_of_thread(connection: Connection, thread: Thread) -> str | None:
    """The task of a thread, None if the thread is unknown."""
    params = {"channel": thread.channel, "thread_ts": thread.thread_ts}
    row = connection.execute(QUERIES["task_of_thread"], params).fetchone()
    return None if row is None else str(row[0])


def await_answer(connection: Connection, message_id: str, now: datetime | None = None) -> bool:
    """Record that a person has received the question. Returns False if it is answered, or if a newer one was asked."""
    return connection.execute(QUERIES["await_answer"], {"message_id": message_id, "now": now}).rowcount == 1


def forget_awaited(connection: Connection, task_id: str) -> None:
    """Record that no answer is awaited."""
    connection.execute(QUERIES["forget_awaited"], {"task_id": task_id})


def find_task(connection: Connection, task_id: str) -> Task | None:
    """A task by its id."""
    return _task_of(connection, "task", {"task_id": task_id})


def backlog(connection: Connection, old_days: int, now: datetime | None = None) -> dict[str, Any]:
    """The values for `dpp.lifecycle.flow.reading.read.Backlog`."""
    (row,) = named_rows(connection, QUERIES["backlog"], {"old_days": old_days, "now": now})
    return row


def _version(task: Task, now: datetime | None) -> dict[str, object]:
    return {"task_id": task.task_id, "attempt": task.attempt, "run_id": task.run_id, "now": now}


def _move(connection: Connection, query: str, task: Task, now: datetime | None, **more: object) -> Task | None:
    return _task_of(connection, query, _version(task, now) | more)


def _task_of(connection: Connection, query: str, params: Mapping[str, object]) -> Task | None:
    return row_as(Task, connection, QUERIES[query], params)


def event_of_row(row: Mapping[str, Any]) -> Event:
    """A row of `lifecycle_events`. Raises ValidationError if this version can't read it."""
    return from_row(Event, {**row, "subject": row["payload"]})
