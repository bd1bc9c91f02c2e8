"""An exclusive lease in Postgres, by the database's clock (D1): at most one holder at a time.

Not an advisory lock: a session-level lock would pin a connection of RDS Proxy, and no lock records when it was taken.
The lease of a dead holder expires. Work under a lease is written in a transaction that calls `keep`, so that a holder
that outlived its lease writes nothing.
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
    """A lease that this process holds until it expires."""

    name: str
    token: UUID


class LeaseTaken(Exception):
    """Another holder has the lease."""

    def __init__(self, holder: str, started_at: datetime) -> None:
        since = started_at.isoformat(timespec="seconds")
        super().__init__(f"already running since {since} (started by {holder})")
        self.holder = holder
        self.started_at = started_at


class LeaseOver(Exception):
    """The lease expired and another holder took it. Nothing was written."""


@contextmanager
def held(
    database: Database, name: str, holder: str, *, ttl_seconds: int, now: datetime | None = None
) -> Iterator[Lease]:
    """Hold the lease `name` for the block. Raises LeaseTaken while another holder has it.

    `ttl_seconds` must be longer than the holder can live, otherwise two would run at once. A lease that cannot be
    released expires.
    """
    lease = database.using(_take, name, holder, ttl_seconds, now)
    try:
        yield lease
    finally:
        try:
            with database.connection() as connection:
                connection.execute(_QUERIES["release_lease"], {"name": lease.name, "token": lease.token})
        except DependencyUnavailable:
            _LOG.warning("lease not released; it will expire", extra={"lease": name})


def keep(connection: Connection, lease: Lease) -> None:
    """Keep the lease until this transaction ends. Raises LeaseOver."""
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
        # It was released between the two statements.
    return Lease(name, token)
