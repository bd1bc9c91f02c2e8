"""The port through which a context declares data that is kept for a period and then deleted (LIFE-8).

A context declares its classes in its `retention.py`, usually as `TableClass` (dpp/platform/db/retention_table.py). The
cleaner (dpp/lifecycle/retention) works through the classes of all contexts and knows none of their tables. The periods
are in one place (dpp/lifecycle/retention/periods.py); a class only names its period.

A row is due by its time and its own state. A due row may be blocked by other rows that still need it: `due` counts it,
and `delete` examines it but does not delete it. So `examined` of a batch does not say whether rows are left: only a
missing cursor does. The meaning of a cursor is known to its class only.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString, Protocol

from dpp.platform.db.postgres import Connection


class RetentionBusy(Exception):
    """A table that a class needs is locked by others, so nothing was deleted or created.

    It ends the transaction of the call. The cleaner counts it as an error of the class and continues with the next
    class; a later tick tries again.
    """


@dataclass(frozen=True, slots=True)
class Cursor:
    """The time and the id (as text) of the last examined row."""

    time: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one batch. `cursor` is None if no row was left to examine."""

    examined: int
    deleted: int
    bytes: int
    cursor: Cursor | None


@dataclass(frozen=True, slots=True)
class Use:
    """The size of a class, and how many of its deletable rows and bytes were added on the last day.

    `oldest_at`: the start of the period of the oldest deletable row, None if there is none.
    """

    rows: int
    bytes: int
    oldest_at: datetime | None
    rows_a_day: float
    bytes_a_day: float


class RetentionClass(Protocol):
    """One kind of data with a retention period."""

    @property
    def name(self) -> str:
        """The name in reports, unique in all contexts."""

    @property
    def period(self) -> str:
        """The field of the retention section with the period in days."""

    @property
    def points_at(self) -> tuple[str, ...]:
        """Classes to which rows of this class refer: this class is deleted before them and kept no longer."""

    @property
    def statements(self) -> Mapping[str, LiteralString]:
        """The SQL statements of the class by name."""

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Create what future rows need (partitions); most classes need nothing.

        Called once per cleanup before anything is deleted, in a transaction of its own. Raises RetentionBusy.
        """

    def due(self, connection: Connection, before: datetime, limit: int) -> int:
        """Count the due rows, up to `limit`."""

    def delete(
        self, connection: Connection, before: datetime, cursor: Cursor | None, limit: int, now: datetime | None
    ) -> Batch:
        """Delete one batch in the caller's transaction. Raises RetentionBusy."""

    def use(self, connection: Connection, now: datetime | None) -> Use:
        """Measure the class."""


@contextmanager
def as_chamberlain(connection: Connection) -> Iterator[None]:
    """Act under the role that may delete, within the caller's transaction. An error inside ends that transaction.

    The role has the rights that migrations granted it and no others; SELECT FOR UPDATE is not among them.
    """
    connection.execute("SET LOCAL ROLE dpp_chamberlain")
    yield
    connection.execute("SET LOCAL ROLE NONE")
