"""The rows of the sources: where their polls stand (LIFE-7)."""

from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow.model import Source
from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow.intake", "sources.sql")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What is known of a source. `failures`: in a row."""

    etag: str | None = None
    complete_until: datetime | None = None
    failures: int = 0
    due: bool = True


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source as an operator sees it. `complete_until`: everything before was taken in, None where no poll ever came
    to its end; `next_poll_at`: until then it is left alone; `failures`: in a row, with what went wrong last."""

    source: Source
    etag: str | None
    complete_until: datetime | None
    polled_at: datetime
    next_poll_at: datetime
    failures: int
    last_error: str | None


def clock(connection: Connection, now: datetime | None) -> datetime:
    """The time by Postgres."""
    row = connection.execute(QUERIES["clock"], {"now": now}).fetchone()
    assert row is not None  # noqa: S101 - a SELECT without FROM has one
    found: datetime = row[0]
    return found


def find(connection: Connection, source: Source, now: datetime | None) -> SourceRow:
    """Where a source's polls stand; one that was never polled is due."""
    row = connection.execute(QUERIES["source"], {"source": source, "now": now}).fetchone()
    return SourceRow() if row is None else SourceRow(*row)


def polled(
    connection: Connection, source: Source, etag: str | None, started_at: datetime, wait_seconds: int
) -> None:
    """A poll has taken in everything."""
    params = {"source": source, "etag": etag, "started_at": started_at, "wait_seconds": wait_seconds}
    connection.execute(QUERIES["polled"], params)


def failed(
    connection: Connection, source: Source, error: str, started_at: datetime, wait_seconds: int
) -> None:
    """A poll has not."""
    params = {"source": source, "error": error[:500], "started_at": started_at, "wait_seconds": wait_seconds}
    connection.execute(QUERIES["failed"], params)


def statuses(connection: Connection) -> list[SourceStatus]:
    """All sources that were ever asked."""
    return [SourceStatus(Source(row[0]), *row[1:]) for row in connection.execute(QUERIES["all"])]
