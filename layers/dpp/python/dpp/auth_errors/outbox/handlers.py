"""The handlers of events (AUTH-9, AUTH-10). They run in the transaction that marks the message DONE.

The error is locked first. A handler skips an error that is terminal or further than the event, so events that arrive
late or twice change nothing (AUTH-3).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from dpp.auth_errors import store
from dpp.auth_errors.decisions.decide import decide_by_policy
from dpp.auth_errors.errors import EventTooEarly
from dpp.auth_errors.machine import TERMINAL, AuthErrorStatus
from dpp.auth_errors.model import AuthError, Decision
from dpp.auth_errors.outbox import events, tables
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.traces.stack_hash import VERSION, stack_hash
from dpp.platform.db.postgres import Connection

CONSUMER = "PLATFORM/CONSUMER"
"""The actor of transitions by the consumer; names of tenants and operators have no slash."""


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """The result of a handler. `enqueued`: it added an event to the outbox."""

    skipped: bool = False
    enqueued: bool = False
    decision: Decision | None = None


SKIPPED = HandlerResult(skipped=True)

type Handler = Callable[[Connection, AuthError, datetime | None], HandlerResult]


def on_recorded(connection: Connection, error: AuthError, now: datetime | None = None) -> HandlerResult:
    """Request an analysis."""
    if error.status not in {AuthErrorStatus.NEW, AuthErrorStatus.RETRY}:
        return SKIPPED
    moved = store.request_analysis(connection, error.auth_error_id, CONSUMER, now)
    if moved is None:
        raise AssertionError(f"the locked error {error.auth_error_id} changed its status")
    event = events.analysis_requested(error.auth_error_id, error.dedup_key, error.occurred_at, moved.updated_at)
    return HandlerResult(enqueued=tables.enqueue(connection, event, now))


def on_analysis_requested(connection: Connection, error: AuthError, now: datetime | None = None) -> HandlerResult:
    """Add the error to its cluster, and decide by the policies. Raises EventTooEarly."""
    if error.status is AuthErrorStatus.NEW:
        raise EventTooEarly
    if error.status in TERMINAL or error.status is AuthErrorStatus.ANALYSIS_COMPLETED:
        return SKIPPED
    found = stack_hash(error.exception_class, error.stacktrace)
    moved = store.complete_analysis(connection, error.auth_error_id, CONSUMER, now)
    if moved is None:
        raise AssertionError(f"the locked error {error.auth_error_id} changed its status")
    cluster = store.join_cluster(connection, moved, uuid4(), VERSION, found.digest)
    return HandlerResult(decision=decide_by_policy(connection, moved, cluster, now))


HANDLERS: Mapping[EventType, Handler] = {
    EventType.RECORDED: on_recorded,
    EventType.ANALYSIS_REQUESTED: on_analysis_requested,
}
