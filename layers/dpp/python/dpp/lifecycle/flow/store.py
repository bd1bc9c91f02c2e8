"""The SQL of events, tasks, messages and what belongs to them, and nothing else; `read_store` has what only looks.

Zero rows of a compare-and-swap come back as None or False, never as an error. `now` moves the clock in tests; in
production it is None and Postgres's own clock decides (D1).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from dpp.lifecycle.flow.machine import EventStatus, MessageStatus, TaskOutcome, TaskStatus
from dpp.lifecycle.flow.model import (
    Arrival,
    Event,
    EventKind,
    Message,
    MessageKind,
    Source,
    StateObject,
    Subject,
    Task,
    Thread,
)
from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow", "queries.sql")
_PAGE_SIZE = 100
_EVENT_COLUMNS = frozenset(field.name for field in fields(Event)) - {"subject"}
_TASK_COLUMNS = frozenset(field.name for field in fields(Task))
_MESSAGE_COLUMNS = frozenset(field.name for field in fields(Message))


@dataclass(frozen=True, slots=True)
class NewMessage:
    """What a role has to say. `key`: said twice under one key, it is one message."""

    kind: MessageKind
    task_id: str | None
    key: str
    body: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that is this envoy's to send for a while, and the thread of its task where one is known."""

    message: Message
    thread: Thread | None


def clock(connection: Connection, now: datetime | None = None) -> datetime:
    """Postgres's clock (D1)."""
    (row,) = connection.execute(QUERIES["clock"], {"now": now}).fetchall()
    found: datetime = row[0]
    return found


def next_id(connection: Connection, name: Literal["task", "msg"], now: datetime | None = None) -> str:
    """`task-20260101-001`: numbered by the day, in UTC (LIFE-11). Others wait until the caller's transaction ends."""
    (row,) = connection.execute(QUERIES["next_number"], {"name": name, "now": now}).fetchall()
    return f"{name}-{row[0]}-{row[1]:03}"


def pending_events(connection: Connection) -> Iterator[str]:
    """Ids of all PENDING events, oldest first, page by page: one that can't move never hides those behind it."""
    after = 0
    while True:
        params = {"after": after, "limit": _PAGE_SIZE}
        rows = connection.execute(QUERIES["pending_events"], params).fetchall()
        yield from (str(row[0]) for row in rows)
        if len(rows) < _PAGE_SIZE:
            return
        after = rows[-1][1]


def dispatch_event(connection: Connection, event_id: str, now: datetime | None = None) -> Event | None:
    """PENDING to DISPATCHED, held until the transaction ends; None where another king has it, or had it."""
    rows = named_rows(connection, QUERIES["dispatch_event"], {"event_id": event_id, "now": now})
    return event_of_row(rows[0]) if rows else None


def insert_task(connection: Connection, task_id: str, event_id: str, now: datetime | None = None) -> bool:
    """Make a PENDING task of an event; False where there is one of an event of this id already."""
    params = {"task_id": task_id, "event_id": event_id, "now": now}
    return connection.execute(QUERIES["insert_task"], params).rowcount == 1


def end_events(connection: Connection, limit: int, now: datetime | None = None) -> list[EventStatus]:
    """End up to `limit` events as their tasks ended, or FAILED where the task is gone; how each ended."""
    params = {"limit": limit, "now": now}
    rows = connection.execute(QUERIES["end_events"], params).fetchall()
    rows += connection.execute(QUERIES["fail_orphans"], params).fetchall()
    return [EventStatus(row[0]) for row in rows]


def start_tasks(connection: Connection, limit: int, now: datetime | None = None) -> int:
    """PENDING to IN_PROGRESS, up to `limit`; how many."""
    return connection.execute(QUERIES["take_on_tasks"], {"limit": limit, "now": now}).rowcount


def claim_task(
    connection: Connection, due: datetime, lease_seconds: int, now: datetime | None = None
) -> Task | None:
    """A task whose look was due at `due`, nobody else's for `lease_seconds`; None where there is none."""
    return _task_of(connection, "claim_task", {"due": due, "lease_seconds": lease_seconds, "now": now})


def record_run(
    connection: Connection, task: Task, new_run_id: UUID, pause_seconds: float, now: datetime | None = None
) -> Task | None:
    """Note the soldier of the attempt; None where it has one, or the task has moved on."""
    return _move(connection, "record_run", task, now, new_run_id=new_run_id, pause_seconds=pause_seconds)


def check_later(
    connection: Connection,
    task: Task,
    pause_seconds: float,
    failure: str | None = None,
    now: datetime | None = None,
) -> Task | None:
    """Leave the task as it is until the next look; None where it has moved on."""
    return _move(connection, "check_later", task, now, pause_seconds=pause_seconds, failure=failure)


def next_attempt(
    connection: Connection, task: Task, failure: str, pause_seconds: float, now: datetime | None = None
) -> Task | None:
    """Another soldier, to be sent after a pause; None where the task has moved on."""
    return _move(connection, "next_attempt", task, now, failure=failure, pause_seconds=pause_seconds)


def ask_person(connection: Connection, task: Task, failure: str, now: datetime | None = None) -> Task | None:
    """Wait for a person; None where the task has moved on."""
    return _move(connection, "ask_person", task, now, failure=failure)


def complete(
    connection: Connection,
    task: Task,
    outcome: TaskOutcome,
    failure: str | None,
    now: datetime | None = None,
) -> Task | None:
    """IN_PROGRESS to COMPLETED; None where the task has moved on."""
    return _move(connection, "complete_task", task, now, outcome=outcome, failure=failure)


def take_answer(
    connection: Connection, task_id: str, answer: str, *, again: bool, now: datetime | None = None
) -> Task | None:
    """The next attempt, with a person's answer; None where none is waited for.

    Without `again` the words that were answered last are no new answer.
    """
    params = {"task_id": task_id, "answer": answer, "again": again, "now": now}
    return _task_of(connection, "take_answer", params)


def register(
    connection: Connection, task: Task, objects: Sequence[StateObject], now: datetime | None = None
) -> bool:
    """Enter objects before they are written, all or none, in the caller's transaction.

    False where the attempt has moved on, or where what stood under one of the keys is still being deleted.
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
    """Write a message, once for its key."""
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
    """The key of an attempt's question to a person; `await_answer` of queries.sql knows it, too."""
    return f"{task.task_id}/ask-{task.attempt}"


def claim_message(
    connection: Connection, due: datetime, lease_seconds: int, now: datetime | None = None
) -> Claimed | None:
    """The next message to send, nobody else's for `lease_seconds`; None where none is due."""
    params = {"due": due, "lease_seconds": lease_seconds, "now": now}
    rows = named_rows(connection, QUERIES["claim_message"], params)
    if not rows:
        return None
    channel, thread_ts = rows[0]["channel"], rows[0]["thread_ts"]
    return Claimed(message_of_row(rows[0]), None if channel is None else Thread(channel, thread_ts))


def mark_sent(connection: Connection, message_id: str, now: datetime | None = None) -> bool:
    """PENDING to SENT; False where it was SENT already."""
    return connection.execute(QUERIES["mark_sent"], {"message_id": message_id, "now": now}).rowcount == 1


def note_undelivered(
    connection: Connection, message: Message, error: str, pause_seconds: float, now: datetime | None = None
) -> bool:
    """Plan another attempt; False where another envoy knows better."""
    params = {
        "message_id": message.message_id,
        "attempts": message.attempts,
        "error": error,
        "pause_seconds": pause_seconds,
        "now": now,
    }
    return connection.execute(QUERIES["note_undelivered"], params).rowcount == 1


def keep_thread(connection: Connection, task_id: str, thread: Thread, now: datetime | None = None) -> bool:
    """Remember where the task's messages go; False where its task is gone, or the thread is known."""
    params = {"task_id": task_id, "channel": thread.channel, "thread_ts": thread.thread_ts, "now": now}
    return connection.execute(QUERIES["keep_thread"], params).rowcount == 1


def drop_thread(connection: Connection, task_id: str) -> None:
    """Forget where the task's messages went."""
    connection.execute(QUERIES["drop_thread"], {"task_id": task_id})


def task_of_thread(connection: Connection, thread: Thread) -> str | None:
    """Whose thread it is, None for nobody's."""
    params = {"channel": thread.channel, "thread_ts": thread.thread_ts}
    row = connection.execute(QUERIES["task_of_thread"], params).fetchone()
    return None if row is None else str(row[0])


def await_answer(connection: Connection, message_id: str, now: datetime | None = None) -> bool:
    """Note that a person has the question; False where its answer was faster, or another is asked since."""
    return connection.execute(QUERIES["await_answer"], {"message_id": message_id, "now": now}).rowcount == 1


def forget_awaited(connection: Connection, task_id: str) -> None:
    """No answer is awaited any more."""
    connection.execute(QUERIES["forget_awaited"], {"task_id": task_id})


def find_task(connection: Connection, task_id: str) -> Task | None:
    """The task."""
    return _task_of(connection, "task", {"task_id": task_id})


def backlog(connection: Connection, old_days: int, now: datetime | None = None) -> dict[str, Any]:
    """The figures of `dpp.lifecycle.flow.reading.read.Backlog`."""
    (row,) = named_rows(connection, QUERIES["backlog"], {"old_days": old_days, "now": now})
    return row


def _version(task: Task, now: datetime | None) -> dict[str, object]:
    return {"task_id": task.task_id, "attempt": task.attempt, "run_id": task.run_id, "now": now}


def _move(
    connection: Connection, query: str, task: Task, now: datetime | None, **more: object
) -> Task | None:
    return _task_of(connection, query, _version(task, now) | more)


def _task_of(connection: Connection, query: str, params: Mapping[str, object]) -> Task | None:
    rows = named_rows(connection, QUERIES[query], params)
    return task_of_row(rows[0]) if rows else None


def event_of_row(row: Mapping[str, Any]) -> Event:
    """A row of `lifecycle_events`. Raises ValidationError where it is not to be understood."""
    known = {name: row[name] for name in _EVENT_COLUMNS}
    known |= {
        "source": Source(row["source"]),
        "kind": EventKind(row["kind"]),
        "arrived_by": Arrival(row["arrived_by"]),
        "status": EventStatus(row["status"]),
    }
    return Event(**known, subject=Subject.model_validate(row["payload"]))


def task_of_row(row: Mapping[str, Any]) -> Task:
    """A row of `lifecycle_tasks`. Raises ValidationError where it is not to be understood."""
    known = {name: row[name] for name in _TASK_COLUMNS}
    return Task(
        **known
        | {
            "kind": EventKind(row["kind"]),
            "subject": Subject.model_validate(row["subject"]),
            "status": TaskStatus(row["status"]),
            "outcome": None if row["outcome"] is None else TaskOutcome(row["outcome"]),
        }
    )


def message_of_row(row: Mapping[str, Any]) -> Message:
    """A row of `lifecycle_messages`."""
    known = {name: row[name] for name in _MESSAGE_COLUMNS}
    return Message(**known | {"kind": MessageKind(row["kind"]), "status": MessageStatus(row["status"])})
