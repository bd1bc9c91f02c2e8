"""What of workspaces outlives its use (LIFE-8): events, week by week, and workspaces that were cleaned away.

A week of events is a partition, and goes whole when its last event is old enough: at no cost, however many there are,
and up to a week later than each alone would. A workspace goes when no event of it is left.
"""

from dataclasses import dataclass
from datetime import datetime

from psycopg import errors

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.retention import (
    Batch,
    Cursor,
    QueriedClass,
    RetentionBusy,
    RetentionClass,
    Use,
    as_chamberlain,
)
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.workspaces", "retention.sql")
WEEKS_AHEAD = 4
"""So long may nobody prepare the next ones; then events go to the default partition, and are deleted one by one."""


@dataclass(frozen=True, slots=True)
class PartitionedClass:
    """Rows by week. A batch is a week, of however many rows; when none is due, one of rows that have no week.

    A cursor behind a week has its name as id: single rows come after all weeks, and from their beginning.
    """

    rows: QueriedClass

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.rows.name

    @property
    def period(self) -> str:
        """The field of the retention section."""
        return self.rows.period

    @property
    def points_at(self) -> tuple[str, ...]:
        """Classes that its rows refer to."""
        return self.rows.points_at

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Make the partitions of this week and the coming ones that are missing. Raises RetentionBusy.

        Writers of workspaces wait meanwhile, which is under a second, and for the end of the caller's transaction.
        """
        params = {"now": now, "weeks": WEEKS_AHEAD}
        try:
            with as_chamberlain(connection):
                connection.execute(self.rows.queries[f"prepare_{self.name}"], params)
        except errors.LockNotAvailable as error:
            raise RetentionBusy(f"no lock for the next partitions of {self.name}") from error

    def due(self, connection: Connection, before: datetime, limit: int) -> int:
        """How many rows are in weeks that are wholly due, or due and in none, counted up to `limit`."""
        return self.rows.due(connection, before, limit)

    def delete(
        self,
        connection: Connection,
        before: datetime,
        cursor: Cursor | None,
        limit: int,
        now: datetime | None,
    ) -> Batch:
        """Drop the oldest week that is due, or delete a batch of rows that have none. Raises RetentionBusy.

        The drop waits under a second for who uses the table, and whoever comes then waits behind it, and for the end of
        the caller's transaction.
        """
        try:
            with as_chamberlain(connection):
                (week,) = named_rows(connection, self.rows.queries[f"drop_{self.name}"], {"before": before})
        except errors.LockNotAvailable as error:
            raise RetentionBusy(f"no lock for the oldest partition of {self.name}") from error
        if week["part"] is not None:
            dropped = int(week["rows"])
            return Batch(dropped, dropped, int(week["bytes"]), Cursor(week["ended_at"], week["part"]))
        behind = cursor if cursor is not None and cursor.id.isdecimal() else None
        return self.rows.delete(connection, before, behind, limit, now)

    def use(self, connection: Connection, now: datetime | None) -> Use:
        """How much there is; the period of a week runs from its end."""
        return self.rows.use(connection, now)


CLASSES: tuple[RetentionClass, ...] = (
    PartitionedClass(
        QueriedClass("workspace_events", "workspace_events_days", QUERIES, points_at=("workspaces",))
    ),
    QueriedClass("workspaces", "workspaces_days", QUERIES),
)
