"""The SQL of tickets. A compare-and-swap returns None for zero rows and never raises.

`now` sets the clock in tests; in production it is None, and Postgres's clock decides (D1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from dpp.platform.db.clock import transaction_start
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rows import row_as, rows_as
from dpp.platform.db.sql import Queries
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import REAPER, Backlog, CleanedTicket, RequestType, Ticket, TicketResult, TicketTransition
from dpp.tickets.staleness import ReaperRules, result_message

QUERIES = Queries("dpp.tickets", "queries.sql")
clock = transaction_start


@dataclass(frozen=True, slots=True)
class NewTicket:
    """A ticket to be filed; `params` are JSON values."""

    request_id: UUID
    request_type: RequestType
    params: Mapping[str, Any]
    reason: str
    requested_by: str


def file_ticket(connection: Connection, new: NewTicket, now: datetime | None = None) -> Ticket | None:
    """File a ticket; None if its request_id exists."""
    params = {
        "request_id": new.request_id,
        "request_type": new.request_type,
        "params": Jsonb(dict(new.params)),
        "reason": new.reason,
        "requested_by": new.requested_by,
        "now": now,
    }
    return _one(connection, "file_ticket", params)


def find(connection: Connection, request_id: UUID) -> Ticket | None:
    return _one(connection, "ticket", {"request_id": request_id})


def result_of(connection: Connection, request_id: UUID) -> TicketResult | None:
    return row_as(TicketResult, connection, QUERIES["result"], {"request_id": request_id})


def transitions_of(connection: Connection, request_id: UUID) -> list[TicketTransition]:
    """A ticket's history, the oldest first."""
    return rows_as(TicketTransition, connection, QUERIES["transitions"], {"request_id": request_id})


def page(
    connection: Connection,
    *,
    below: int,
    limit: int,
    status: TicketStatus | None = None,
    request_type: RequestType | None = None,
) -> list[Ticket]:
    """Up to `limit` tickets with a sequence below `below`, the newest first."""
    params = {"below": below, "limit": limit, "status": status, "request_type": request_type}
    return rows_as(Ticket, connection, QUERIES["page_tickets"], params)


def page_stale(connection: Connection, rules: ReaperRules, limit: int, now: datetime | None = None) -> list[Ticket]:
    """Up to `limit` stale tickets, the oldest first."""
    return rows_as(Ticket, connection, QUERIES["page_stale"], _stale(rules, now) | {"limit": limit})


def take_open(connection: Connection, processor_id: str, now: datetime | None = None) -> Ticket | None:
    """Claim the next ticket in the order of filing; None if none is open."""
    return _one(connection, "take_open", {"processor_id": processor_id, "now": now})


def take_again(
    connection: Connection,
    processor_id: str,
    rules: ReaperRules,
    *,
    silent_seconds: int,
    max_attempts: int,
    now: datetime | None = None,
) -> Ticket | None:
    """Take over a ticket that was inactive for `silent_seconds` and is not stale; None if there is none."""
    params = _stale(rules, now) | {
        "processor_id": processor_id,
        "silent_seconds": silent_seconds,
        "max_attempts": max_attempts,
    }
    return _one(connection, "take_again", params)


def finish(
    connection: Connection, ticket: Ticket, status: TicketStatus, message: str, now: datetime | None = None
) -> Ticket | None:
    """End a ticket that this attempt holds, with its result; None if another processor ended or took it."""
    params = {
        "request_id": ticket.request_id,
        "processor_id": ticket.processor_id,
        "attempts": ticket.attempts,
        "status": status,
        "message": message,
        "now": now,
    }
    return _one(connection, "finish", params)


def backlog(connection: Connection, rules: ReaperRules, now: datetime | None = None) -> Backlog:
    row = connection.execute(QUERIES["backlog"], _stale(rules, now)).fetchone()
    return Backlog(*row) if row else Backlog(0, 0)


def reap(connection: Connection, rules: ReaperRules, now: datetime | None = None) -> list[CleanedTicket]:
    """End up to `max_clean` stale tickets, store their results, and return them (TIX-2)."""
    params = _stale(rules, now) | {
        "max_clean": rules.max_clean,
        "processor_id": REAPER,
        "message": result_message(rules.threshold_seconds),
    }
    return rows_as(CleanedTicket, connection, QUERIES["reap"], params)


@dataclass(frozen=True, slots=True)
class Waiting:
    """The tickets of a type in `state` (OPEN, IN_PROGRESS or STALE), and since when the oldest is in it."""

    request_type: RequestType
    state: str
    count: int
    oldest_at: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """The tickets of a type that ended in `status` within a day and within a week."""

    request_type: RequestType
    status: TicketStatus
    last_day: int
    last_week: int


def count_waiting(connection: Connection, rules: ReaperRules, now: datetime | None = None) -> list[Waiting]:
    """Tickets that have not ended, by type and state. A stale ticket is not counted as in progress (TIX-7)."""
    rows = connection.execute(QUERIES["count_waiting"], _stale(rules, now))
    return [Waiting(RequestType(kind), state, count, oldest) for kind, state, count, oldest in rows]


def count_ended(connection: Connection, now: datetime | None = None) -> list[Ended]:
    """Tickets that ended within a week, by type and status."""
    rows = connection.execute(QUERIES["count_ended"], {"now": now})
    return [Ended(RequestType(kind), TicketStatus(status), day, week) for kind, status, day, week in rows]


def _stale(rules: ReaperRules, now: datetime | None) -> dict[str, object]:
    return {
        "threshold_seconds": rules.threshold_seconds,
        "excluded": [str(excluded) for excluded in rules.excluded_types],
        "now": now,
    }


def _one(connection: Connection, query: str, params: Mapping[str, object]) -> Ticket | None:
    return row_as(Ticket, connection, QUERIES[query], params)
