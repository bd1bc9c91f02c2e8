"""Postgres's clock, which decides (D1). Both functions return `now` if it is given, as tests do."""

from datetime import datetime
from typing import LiteralString

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

_QUERIES = Queries("dpp.platform.db", "clock.sql")


def transaction_start(connection: Connection, now: datetime | None = None) -> datetime:
    """The start of the transaction; outside of one, the present time."""
    return _read(connection, _QUERIES["transaction_start"], now)


def present_time(connection: Connection, now: datetime | None = None) -> datetime:
    """The present time, also inside a transaction."""
    return _read(connection, _QUERIES["present_time"], now)


def _read(connection: Connection, query: LiteralString, now: datetime | None) -> datetime:
    (row,) = connection.execute(query, {"now": now}).fetchall()
    found: datetime = row[0]
    return found
