"""File a ticket (TIX-1): once for a request_id, however often the request is repeated."""

import logging
from dataclasses import dataclass

from dpp.platform.db.postgres import Database
from dpp.tickets import store
from dpp.tickets.errors import TicketConflict
from dpp.tickets.model import Ticket
from dpp.tickets.store import NewTicket

_LOG = logging.getLogger("dpp.tickets.file")


@dataclass(frozen=True, slots=True)
class Filed:
    """A filed ticket. `created` is false if an earlier request filed it."""

    ticket: Ticket
    created: bool


def file(new: NewTicket, database: Database) -> Filed:
    """File a ticket, or find it if it is filed. Raises TicketConflict if its request_id belongs to another request.

    Requests with the same type, parameters and reason are the same; the first operator remains its `requested_by`.
    After a crash, the ticket is filed or not; repeating the request is safe in both cases.
    """
    with database.connection() as connection:
        filed = store.file_ticket(connection, new)
        known = filed or store.find(connection, new.request_id)
    if known is None:
        raise AssertionError(f"ticket {new.request_id} exists but can't be found")
    if (known.request_type, known.params, known.reason) != (new.request_type, new.params, new.reason):
        raise TicketConflict
    if filed:
        fields = {"request_id": str(filed.request_id), "request_type": filed.request_type}
        _LOG.info("ticket filed", extra=fields | {"actor": filed.requested_by})
    return Filed(known, created=filed is not None)
