"""The port by which a context says what of its data outlives its use, and how that is deleted (LIFE-8).

A context has a `retention.py` with its classes: names, and statements in a file of queries. The chamberlain
(dpp/lifecycle) works through the classes of all contexts and knows no table of theirs. For how long a class is kept
stands in one place (dpp/lifecycle/retention/periods.py); a class says only by which of its periods.

Each statement is one of the context's named queries:

- `due_<class>`: how many rows are due. Parameters `before`, `limit`; one row, one count of at most `limit`.
- `delete_<class>`: deletes a batch of those, in the order of their time and id. Parameters `before`, `after_time` and
  `after_id` (NULL at the start; the id as text), `limit`, `now`; one row: `examined`, `deleted`, `bytes`, and
  `last_time`, `last_id` (text) of the last row examined, NULL where there was none. What is due and still needed is
  examined and not deleted. Rows of one moment that make one item go in one batch, which may then have more than
  `limit`. They are looked up by an array of their keys: joined, a table of which a batch is a good part is read whole.
  It runs under the role `dpp_chamberlain`, which has no right but those that migrations granted it: SELECT FOR UPDATE
  is not among them.
- `use_of_<class>`: how much there is. Parameter `now`; one row: `rows`, `bytes`, `oldest_at` (the time from which its
  oldest deletable row's period runs; NULL where there is none), and of the last day's deletable rows `rows_a_day` and
  `bytes_a_day`. `rows_of` and `bytes_of` of migration 0006 tell the size of a table without reading it.

What is due is told by its time and its own state alone: `due_<class>` counts what will turn out to be needed, too. A
batch's `examined` says nothing of what is left; only a missing cursor does, and a cursor means something to its class
alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.sql import Queries


class RetentionBusy(Exception):
    """What was to be deleted or made is in use, and was waited for as long as harms nobody; nothing was done.

    It ends the transaction of the call. The chamberlain counts it as an error of the class and goes on with the next; a
    later firing tries again.
    """


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last row that was looked at, by its time and its id as text."""

    time: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch did; `cursor` None: nothing was left to look at."""

    examined: int
    deleted: int
    bytes: int
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class Use:
    """What a class takes now, and what the last day added to what will be deleted."""

    rows: int
    bytes: int
    oldest_at: datetime | None
    rows_a_day: float
    bytes_a_day: float


class RetentionClass(Protocol):
    """One kind of data that is kept for a period and then deleted."""

    @property
    def name(self) -> str:
        """What reports call it; one for all contexts."""

    @property
    def period(self) -> str:
        """The field of the retention section that says for how many days."""

    @property
    def points_at(self) -> tuple[str, ...]:
        """Classes that this one's rows refer to: it is deleted before them, and kept no longer."""

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Make what rows to come need (partitions), in a transaction of its own: its locks are held until that ends.

        Called once a firing, before anything is deleted; most classes need nothing. Raises RetentionBusy.
        """

    def due(self, connection: Connection, before: datetime, limit: int) -> int:
        """How many are due, counted up to `limit`."""

    def delete(
        self,
        connection: Connection,
        before: datetime,
        cursor: Cursor | None,
        limit: int,
        now: datetime | None,
    ) -> Batch:
        """Delete one batch, in the caller's transaction. Raises RetentionBusy."""

    def use(self, connection: Connection, now: datetime | None) -> Use:
        """How much there is."""


@dataclass(frozen=True, slots=True)
class QueriedClass:
    """A class whose statements are named queries, as the module says."""

    name: str
    period: str
    queries: Queries
    points_at: tuple[str, ...] = ()

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Nothing: its rows need nothing but their table."""

    def due(self, connection: Connection, before: datetime, limit: int) -> int:
        """How many are due, counted up to `limit`."""
        params = {"before": before, "limit": limit}
        (row,) = connection.execute(self.queries[f"due_{self.name}"], params).fetchall()
        return int(row[0])

    def delete(
        self,
        connection: Connection,
        before: datetime,
        cursor: Cursor | None,
        limit: int,
        now: datetime | None,
    ) -> Batch:
        """Delete one batch, in the caller's transaction, under the chamberlain's role and no other right."""
        params = {
            "before": before,
            "after_time": cursor.time if cursor else None,
            "after_id": cursor.id if cursor else None,
            "limit": limit,
            "now": now,
        }
        with as_chamberlain(connection):
            (row,) = named_rows(connection, self.queries[f"delete_{self.name}"], params)
        at = None if row["last_time"] is None else Cursor(row["last_time"], row["last_id"])
        return Batch(int(row["examined"]), int(row["deleted"]), int(row["bytes"]), at)

    def use(self, connection: Connection, now: datetime | None) -> Use:
        """How much there is."""
        (row,) = named_rows(connection, self.queries[f"use_of_{self.name}"], {"now": now})
        return Use(
            int(row["rows"]),
            int(row["bytes"]),
            row["oldest_at"],
            float(row["rows_a_day"]),
            float(row["bytes_a_day"]),
        )


@contextmanager
def as_chamberlain(connection: Connection) -> Iterator[None]:
    """Act as the role that may delete, within the caller's transaction; what fails inside ends that transaction."""
    connection.execute("SET LOCAL ROLE dpp_chamberlain")
    yield
    connection.execute("SET LOCAL ROLE NONE")
