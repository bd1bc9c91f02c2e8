"""Process tickets in the order of filing (TIX-6).

A ticket is claimed by compare-and-swap, carried out by the executor of its type, and ended with a result. A crash in
between leaves it IN_PROGRESS. After ten minutes without activity a later cycle claims it again; each executor is
idempotent by `request_id`, so that the effect happens once. After five attempts, or when the ticket is stale, only the
reaper ends it.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable
from dpp.tickets import stop, store
from dpp.tickets.errors import TicketRefused
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.staleness import ReaperRules

_LOG = logging.getLogger("dpp.tickets.process")
SILENT_SECONDS = 600
"""After this time without activity, the processor has ended: its function has a timeout of one minute."""
MAX_ATTEMPTS = 5
BATCH_LIMIT = 50
TIME_LIMIT_SECONDS = 30.0
_MAX_MESSAGE = 1_000

type Executor = Callable[[Ticket], str]
"""Carries out a ticket, once for its request_id, and returns the result message. Raises TicketRefused if the request
can never be carried out, and DependencyUnavailable if it can't be carried out now."""


class TicketOutcome(StrEnum):
    """The outcome of processing a ticket."""

    DONE = "DONE"
    FAILED = "FAILED"
    LEFT = "LEFT"
    """A dependency failed, or the emergency stop was set. A later cycle processes the ticket again."""
    LOST = "LOST"
    """Another processor ended the ticket or took it over in the meantime."""


@dataclass(frozen=True, slots=True)
class ProcessedTicket:
    """A processed ticket and its outcome."""

    request_id: UUID
    request_type: RequestType
    outcome: TicketOutcome


@dataclass(frozen=True, slots=True)
class ProcessEffects:
    """Connections that processing uses, an executor for each type, and the rules for staleness."""

    database: Database
    executors: Mapping[RequestType, Executor]
    rules: ReaperRules


@dataclass(slots=True)
class ProcessReport:
    """The processed tickets; complete also if processing ended with an exception."""

    processed: list[ProcessedTicket] = field(default_factory=list)
    stopped_early: bool = False

    def count(self, outcome: TicketOutcome) -> int:
        """The number of tickets with this outcome."""
        return sum(one.outcome is outcome for one in self.processed)


def process_tickets(
    effects: ProcessEffects, processor_id: str, report: ProcessReport, now: datetime | None = None
) -> None:
    """Process waiting tickets, within the limits. Raises EmergencyStopSet and PostgresUnavailable."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    while (ticket := _take(effects, processor_id, now)) is not None:
        outcome = TicketOutcome.LEFT
        try:
            outcome = _carry_out(effects, ticket, now)
        finally:  # also if an exception ends the step: the receipt then shows the ticket
            report.processed.append(ProcessedTicket(ticket.request_id, ticket.request_type, outcome))
        if len(report.processed) >= BATCH_LIMIT or time.monotonic() > deadline:
            report.stopped_early = True
            return


def _take(effects: ProcessEffects, processor_id: str, now: datetime | None) -> Ticket | None:
    """The next ticket. Those of ended processors come first, because they were filed before all open ones."""
    with effects.database.connection() as connection, connection.transaction():
        stop.require_clear(connection)
        return store.take_again(
            connection, processor_id, effects.rules, silent_seconds=SILENT_SECONDS, max_attempts=MAX_ATTEMPTS, now=now
        ) or store.take_open(connection, processor_id, now)


def _carry_out(effects: ProcessEffects, ticket: Ticket, now: datetime | None) -> TicketOutcome:
    """Carry out a ticket and store its result, even if the emergency stop was set in the meantime."""
    with effects.database.connection() as connection:
        stop.require_clear(connection)  # checked again before every write (000 §7)
    fields = {"request_id": str(ticket.request_id), "request_type": ticket.request_type}
    try:
        status, message = TicketStatus.DONE, effects.executors[ticket.request_type](ticket)
    except TicketRefused as refused:
        status, message = TicketStatus.FAILED, str(refused)
    except PostgresUnavailable:
        raise
    except DependencyUnavailable as error:
        _LOG.error(
            "ticket not processed; a later cycle retries it", extra=fields | {"error": {"dependency": error.dependency}}
        )
        return TicketOutcome.LEFT
    ended = effects.database.using(store.finish, ticket, status, message[:_MAX_MESSAGE], now)
    if ended is None:
        _LOG.error("ticket carried out, but another processor has taken it over", extra=fields)
        return TicketOutcome.LOST
    _LOG.info("ticket ended", extra=fields | {"status": status, "attempts": ticket.attempts})
    return TicketOutcome(status)
