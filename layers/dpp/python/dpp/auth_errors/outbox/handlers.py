"""What is done about each event (AUTH-9, AUTH-10), in the transaction of the consumer's ledger.

The error is locked first and asked where it stands: what is terminal is skipped, and so is what has gone further than
the event, so that events out of order or delivered twice change nothing (AUTH-3).
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
"""Who moves an error while its events are handled; no tenant and no operator has a stroke in its name."""


@dataclass(frozen=True, slots=True)
class HandlerResult:
    """What a handler did. `enqueued`: there is something new to publish."""

    skipped: bool = False
    enqueued: bool = False
    decision: Decision | None = None


SKIPPED = HandlerResult(skipped=True)

type Handler = Callable[[Connection, AuthError, datetime | None], HandlerResult]


def on_recorded(connection: Connection, error: AuthError, now: datetime | None = None) -> HandlerResult:
    """Ask for an analysis."""
    if error.status not in {AuthErrorStatus.NEW, AuthErrorStatus.RETRY}:
        return SKIPPED
    moved = store.request_analysis(connection, error.auth_error_id, CONSUMER, now)
    if moved is None:
        raise AssertionError("an error that is locked was moved")
    event = events.analysis_requested(
        error.auth_error_id, error.dedup_key, error.occurred_at, moved.updated_at
    )
    return HandlerResult(enqueued=tables.enqueue(connection, event, now))


def on_analysis_requested(
    connection: Connection, error: AuthError, now: datetime | None = None
) -> HandlerResult:
    """Find the error's cluster, and let the policies decide. Raises EventTooEarly."""
    if error.status is AuthErrorStatus.NEW:
        raise EventTooEarly
    if error.status in TERMINAL or error.status is AuthErrorStatus.ANALYSIS_COMPLETED:
        return SKIPPED
    found = stack_hash(error.exception_class, error.stacktrace)
    moved = store.complete_analysis(connection, error.auth_error_id, CONSUMER, now)
    if moved is None:
        raise AssertionError("an error that is locked was moved")
    cluster = store.join_cluster(connection, moved, uuid4(), VERSION, found.digest)
    return HandlerResult(decision=decide_by_policy(connection, moved, cluster, now))


HANDLERS: Mapping[EventType, Handler] = {
    EventType.RECORDED: on_recorded,
    EventType.ANALYSIS_REQUESTED: on_analysis_requested,
}
