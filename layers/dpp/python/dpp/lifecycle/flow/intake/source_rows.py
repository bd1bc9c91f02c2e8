"""SQL of the state of the sources' polls (LIFE-7)."""

from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow.model import Source
from dpp.platform.db.clock import transaction_start
from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow.intake", "sources.sql")
clock = transaction_start


@dataclass(frozen=True, slots=True)
class SourceRow:
    """The poll state of a source. `failures`: in a row."""

    etag: str | None = None
    complete_until: datetime | None = None
    failures: int = 0
    due: bool = True


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The status of a source for operators. `complete_until`: all earlier events were accepted, None if no poll has
    completed. `next_poll_at`: the end of the pause. `failures`: in a row, with the last error."""

    source: Source
    etag: str | None
    complete_until: datetime | None
    polled_at: datetime
    next_poll_at: datetime
    failures: int
    last_error: str | None


def find(connection: Connection, source: Source, now: datetime | None) -> SourceRow:
    """The poll state of a source; a source that was never polled is due."""
    row = connection.execute(QUERIES["source"], {"source": source, "now": now}).fetchone()
    return SourceRow() if row is None else SourceRow(*row)


def polled(connection: Connection, source: Source, etag: str | None, started_at: datetime, wait_seconds: int) -> None:
    """Record a complete poll."""
    params = {"source": source, "etag": etag, "started_at": started_at, "wait_seconds": wait_seconds}
    connection.execute(QUERIES["polled"], params)


def failed(connection: Connection, source: Source, error: str, started_at: datetime, wait_seconds: int) -> None:
    """Record a failed poll."""
    params = {"source": source, "error": error[:500], "started_at": started_at, "wait_seconds": wait_seconds}
    connection.execute(QUERIES["failed"], params)


def statuses(connection: Connection) -> list[SourceStatus]:
    """The status of all sources that were polled."""
    return [SourceStatus(Source(row[0]), *row[1:]) for row in connection.execute(QUERIES["all"])]
