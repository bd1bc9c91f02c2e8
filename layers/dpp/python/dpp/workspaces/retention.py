"""The retention classes of workspaces (LIFE-8): events, week by week, and workspaces that were cleaned up.

A week of events is a partition and is dropped as a whole when its last event is old enough. That costs the same for any
number of events, and an event may stay up to a week longer. A workspace is deleted when it has no events left.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import LiteralString

from psycopg import errors

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.retention import Batch, Cursor, RetentionBusy, RetentionClass, as_chamberlain
from dpp.platform.db.retention_table import Blocker, TableClass
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.workspaces", "retention.sql")
WEEKS_AHEAD = 4
"""Weeks that `prepare` may miss before events go to the default partition, where rows are deleted singly."""


class WeeklyPartitions(TableClass):
    """Events by week. A batch is a week with all its rows; when no week is due, a batch of the default partition.

    After a week, the cursor's id is the name of its partition. Rows of the default partition follow all weeks, and are
    examined from their beginning.
    """

    @property
    def statements(self) -> Mapping[str, LiteralString]:
        """The queries of `retention.sql`; deletion from the default partition is that of any table."""
        return {**super().statements, **{name: QUERIES[name] for name in QUERIES.names()}}

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Create the missing partitions of this week and the coming ones. Raises RetentionBusy.

        Writers of workspaces wait for the end of the caller's transaction, and for up to a second before.
        """
        params = {"now": now, "weeks": WEEKS_AHEAD}
        try:
            with as_chamberlain(connection):
                connection.execute(self.statements[f"prepare_{self.name}"], params)
        except errors.LockNotAvailable as error:
            raise RetentionBusy(f"no lock for the next partitions of {self.name}") from error

    def delete(
        self, connection: Connection, before: datetime, cursor: Cursor | None, limit: int, now: datetime | None
    ) -> Batch:
        """Drop the oldest week that is due, or delete a batch of the default partition. Raises RetentionBusy.

        The drop waits for at most a second for other users of the table. Users that come later wait behind it, until
        the caller's transaction ends.
        """
        try:
            with as_chamberlain(connection):
                (week,) = named_rows(connection, self.statements[f"drop_{self.name}"], {"before": before})
        except errors.LockNotAvailable as error:
            raise RetentionBusy(f"no lock for the oldest partition of {self.name}") from error
        if week["part"] is not None:
            dropped = int(week["rows"])
            return Batch(dropped, dropped, int(week["bytes"]), Cursor(week["ended_at"], week["part"]))
        behind = cursor if cursor is not None and cursor.id.isdecimal() else None
        return super().delete(connection, before, behind, limit, now)


EVENTS = WeeklyPartitions(
    "workspace_events",
    "workspace_events_days",
    table="workspace_events_default",
    time="happened_at",
    key="event_id",
    key_type="bigint",
    points_at=("workspaces",),
)
WORKSPACES = TableClass(
    "workspaces",
    "workspaces_days",
    table="workspaces",
    time="cleaned_at",
    key="workspace_id",
    key_type="uuid",
    blocked_by=(Blocker("workspace_events", "workspace_id"),),
)
CLASSES: tuple[RetentionClass, ...] = (EVENTS, WORKSPACES)
