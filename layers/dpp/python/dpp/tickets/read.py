"""Read tickets: one with its result and history, or pages of them."""

from dataclasses import dataclass
from uuid import UUID

from dpp.platform.db.postgres import Connection, one_snapshot
from dpp.tickets import store
from dpp.tickets.errors import TicketNotFound
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket, TicketResult, TicketTransition

NEWEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WholeTicket:
    """A ticket, its result if it has ended, and all its transitions."""

    ticket: Ticket
    result: TicketResult | None
    transitions: list[TicketTransition]


@dataclass(frozen=True, slots=True)
class TicketPage:
    """Tickets, the newest first. The next page starts below the sequence `below`; None on the last page."""

    tickets: list[Ticket]
    below: int | None


def read(connection: Connection, request_id: UUID | None) -> WholeTicket:
    """Read one ticket in one snapshot (LIFE-12). Raises TicketNotFound, also for an invalid id (None)."""
    with one_snapshot(connection):
        ticket = store.find(connection, request_id) if request_id else None
        if ticket is None:
            raise TicketNotFound
        return WholeTicket(
            ticket, store.result_of(connection, ticket.request_id), store.transitions_of(connection, ticket.request_id)
        )


def page(
    connection: Connection,
    *,
    below: int | None,
    limit: int,
    status: TicketStatus | None,
    request_type: RequestType | None,
) -> TicketPage:
    found = store.page(
        connection, below=NEWEST if below is None else below, limit=limit + 1, status=status, request_type=request_type
    )
    tickets = found[:limit]
    return TicketPage(tickets, tickets[-1].sequence if len(found) > limit else None)
