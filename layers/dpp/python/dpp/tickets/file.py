"""File a ticket (TIX-1): once for a request_id, however often it is asked."""

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
    """A ticket that stands; `created` false where it stood before."""

    ticket: Ticket
    created: bool


def file(new: NewTicket, database: Database) -> Filed:
    """File it, or find it filed. Raises TicketConflict where its request_id stands for another request.

    The same request is one of the same type, parameters and reason, whoever repeats it: it stays the first filer's.
    One statement, so that a crash leaves it filed or not; the repetition tells.
    """
    with database.connection() as connection:
        filed = store.file_ticket(connection, new)
        known = filed or store.find(connection, new.request_id)
    if known is None:
        raise AssertionError("a ticket that is known can't be found")
    if (known.request_type, known.params, known.reason) != (new.request_type, new.params, new.reason):
        raise TicketConflict
    if filed:
        fields = {"request_id": str(filed.request_id), "request_type": filed.request_type}
        _LOG.info("ticket filed", extra=fields | {"actor": filed.requested_by})
    return Filed(known, created=filed is not None)
