"""The king (dispatcher): creates a task for each event, and ends events whose tasks have ended (LIFE-1, LIFE-2).

An event's status, its task and the message that opens the task's thread are written in one transaction. What a crash
leaves undone is found by the next tick. Concurrent dispatchers skip each other's events.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import datetime

from pydantic import ValidationError

from dpp.lifecycle.flow import heartbeat, store
from dpp.lifecycle.flow.machine import EventStatus
from dpp.lifecycle.flow.model import Event, MessageKind
from dpp.lifecycle.flow.ports import Role, Wake
from dpp.lifecycle.flow.prompts import opening
from dpp.lifecycle.flow.store import NewMessage
from dpp.lifecycle.flow.tick import LIMIT, rounds
from dpp.platform.db.postgres import Connection, Database

_LOG = logging.getLogger("dpp.lifecycle.flow.dispatcher")


@dataclass(frozen=True, slots=True)
class DispatcherEffects:
    """Connections and clients that the dispatcher uses."""

    database: Database
    wake: Wake


@dataclass(slots=True)
class DispatcherReport:
    """The result of one tick. `unreadable`: events that this version can't read; they are left as they are."""

    dispatched: int = 0
    completed: int = 0
    failed: int = 0
    unreadable: int = 0

    def as_dict(self) -> dict[str, int]:
        """The counts for the log."""
        return asdict(self)


def dispatch(effects: DispatcherEffects, now: datetime | None = None) -> DispatcherReport:
    """One tick: at most 100 events are dispatched, and at most 100 ended. Raises PostgresUnavailable."""
    report = DispatcherReport()
    with effects.database.connection() as connection:
        heartbeat.record(connection, Role.KING, now)
        for _, event_id in zip(rounds(), store.pending_events(connection), strict=False):
            try:
                report.dispatched += _dispatch(connection, event_id, now)
            except ValidationError:
                report.unreadable += 1
                _LOG.error("an event can't be read", extra={"event_id": event_id})
        with connection.transaction():
            ended = store.end_events(connection, LIMIT, now)
    report.completed = ended.count(EventStatus.COMPLETED)
    report.failed = ended.count(EventStatus.FAILED)
    if report.dispatched:
        effects.wake(Role.GENERAL)
        effects.wake(Role.ENVOY)
    return report


def _dispatch(connection: Connection, event_id: str, now: datetime | None) -> bool:
    """Dispatch an event and create its task. Returns False if another dispatcher was faster."""
    with connection.transaction():
        event = store.dispatch_event(connection, event_id, now)
        if event is None:
            return False
        task_id = store.next_id(connection, "task", now)
        if store.insert_task(connection, task_id, event_id, now):
            store.add_message(connection, _thread_start(task_id, event), now)
        return True


def _thread_start(task_id: str, event: Event) -> NewMessage:
    body = opening(event.kind, event.subject)
    return NewMessage(MessageKind.THREAD_START, task_id, f"{task_id}/start", body)
