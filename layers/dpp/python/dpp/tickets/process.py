"""Take tickets in the order of filing and carry them out (TIX-6).

A ticket is taken by compare-and-swap, carried out by its type's executor, and ended with its result. A crash in
between leaves it IN_PROGRESS: after ten minutes of silence a later cycle takes it again, and each executor is
idempotent by `request_id`, so that what was done is done once. After five attempts, or once it is stale, nobody takes
it any more, and the reaper ends it.
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
"""After so long without a word its processor is gone: a function lives for a minute."""
MAX_ATTEMPTS = 5
BATCH_LIMIT = 50
TIME_LIMIT_SECONDS = 30.0
_MAX_MESSAGE = 1_000

type Executor = Callable[[Ticket], str]
"""Does what the ticket asks, once for its request_id, and says what was done. Raises TicketRefused where it can't be
done at all, and DependencyUnavailable where it can't be done now."""


class TicketOutcome(StrEnum):
    """What became of a ticket that was taken."""

    DONE = "DONE"
    FAILED = "FAILED"
    LEFT = "LEFT"
    """A dependency failed, or the stop was set: it is taken again later."""
    LOST = "LOST"
    """It was ended or taken over while it was carried out."""


@dataclass(frozen=True, slots=True)
class ProcessedTicket:
    """A ticket that was taken, and what became of it."""

    request_id: UUID
    request_type: RequestType
    outcome: TicketOutcome


@dataclass(frozen=True, slots=True)
class ProcessEffects:
    """What processing touches; an executor for every type, and the rules by which the reaper has what is stale."""

    database: Database
    executors: Mapping[RequestType, Executor]
    rules: ReaperRules


@dataclass(slots=True)
class ProcessReport:
    """What was done, also where it ended with an exception."""

    processed: list[ProcessedTicket] = field(default_factory=list)
    stopped_early: bool = False

    def of(self, outcome: TicketOutcome) -> int:
        """How many came to this."""
        return sum(one.outcome is outcome for one in self.processed)


def process_tickets(
    effects: ProcessEffects, processor_id: str, report: ProcessReport, now: datetime | None = None
) -> None:
    """Take and carry out what waits, within the limits. Raises EmergencyStopSet and PostgresUnavailable."""
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    while (ticket := _take(effects, processor_id, now)) is not None:
        outcome = TicketOutcome.LEFT
        try:
            outcome = _carry_out(effects, ticket, now)
        finally:  # also where this ends the step: the receipt says at which ticket
            report.processed.append(ProcessedTicket(ticket.request_id, ticket.request_type, outcome))
        if len(report.processed) >= BATCH_LIMIT or time.monotonic() > deadline:
            report.stopped_early = True
            return


def _take(effects: ProcessEffects, processor_id: str, now: datetime | None) -> Ticket | None:
    """The next ticket: first one whose processor is gone, since it was filed before all that are open."""
    with effects.database.connection() as connection, connection.transaction():
        stop.require_clear(connection)
        return store.take_again(
            connection,
            processor_id,
            effects.rules,
            silent_seconds=SILENT_SECONDS,
            max_attempts=MAX_ATTEMPTS,
            now=now,
        ) or store.take_open(connection, processor_id, now)


def _carry_out(effects: ProcessEffects, ticket: Ticket, now: datetime | None) -> TicketOutcome:
    """Do it and write the result: what was done is written down even when the stop was set meanwhile."""
    with effects.database.connection() as connection:
        stop.require_clear(connection)  # read again before every write (000 §7)
    fields = {"request_id": str(ticket.request_id), "request_type": ticket.request_type}
    try:
        status, message = TicketStatus.DONE, effects.executors[ticket.request_type](ticket)
    except TicketRefused as refused:
        status, message = TicketStatus.FAILED, str(refused)
    except PostgresUnavailable:
        raise
    except DependencyUnavailable as error:
        _LOG.error("left for later", extra=fields | {"error": {"dependency": error.dependency}})
        return TicketOutcome.LEFT
    with effects.database.connection() as connection:
        ended = store.finish(connection, ticket, status, message[:_MAX_MESSAGE], now)
    if ended is None:
        _LOG.error("carried out, but no longer ours to end", extra=fields)
        return TicketOutcome.LOST
    _LOG.info("ticket ended", extra=fields | {"status": status, "attempts": ticket.attempts})
    return TicketOutcome(status)
