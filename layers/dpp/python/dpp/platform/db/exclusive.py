"""A thing that one may do at a time: a lease in Postgres, by its clock (D1), that says since when somebody does it.

Not an advisory lock: one held by a session would pin a connection of RDS Proxy, and none says when it was taken.
A holder that died is over when its time is. Whatever was begun under a lease is written in a transaction that
`keep`s it, so that a holder which slept past its time writes nothing.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.sql import Queries
from dpp.platform.errors import DependencyUnavailable

_LOG = logging.getLogger("dpp.exclusive")
_QUERIES = Queries("dpp.platform.db", "exclusive.sql")


@dataclass(frozen=True, slots=True)
class Lease:
    """Ours until its time is over."""

    name: str
    token: UUID


class LeaseTaken(Exception):
    """Somebody else is at it."""

    def __init__(self, holder: str, started_at: datetime) -> None:
        super().__init__(f"{holder} is at it since {started_at.isoformat(timespec='seconds')}")
        self.holder = holder
        self.started_at = started_at


class LeaseOver(Exception):
    """The lease's time was over and somebody else has taken it: nothing of ours was written."""


@contextmanager
def held(
    database: Database, name: str, holder: str, *, ttl_seconds: int, now: datetime | None = None
) -> Iterator[Lease]:
    """Have the lease `name` for the block. Raises LeaseTaken while another holds it.

    `ttl_seconds`: longer than the holder can live, or two would be at it. What can't be given back ends by itself.
    """
    with database.connection() as connection:
        lease = _take(connection, name, holder, ttl_seconds, now)
    try:
        yield lease
    finally:
        try:
            with database.connection() as connection:
                connection.execute(_QUERIES["give_back_lease"], {"name": lease.name, "token": lease.token})
        except DependencyUnavailable:
            _LOG.warning("lease not given back; it ends by itself", extra={"lease": name})


def keep(connection: Connection, lease: Lease) -> None:
    """Hold the lease until this transaction ends. Raises LeaseOver."""
    params = {"name": lease.name, "token": lease.token}
    if connection.execute(_QUERIES["lock_lease"], params).fetchone() is None:
        raise LeaseOver(lease.name)


def _take(connection: Connection, name: str, holder: str, ttl_seconds: int, now: datetime | None) -> Lease:
    token = uuid4()
    params = {"name": name, "token": token, "holder": holder, "ttl_seconds": ttl_seconds, "now": now}
    while connection.execute(_QUERIES["take_lease"], params).fetchone() is None:
        found = connection.execute(_QUERIES["holder_of_lease"], params).fetchone()
        if found is not None:
            raise LeaseTaken(str(found[0]), found[1])
        # It was given back between the two statements.
    return Lease(name, token)
