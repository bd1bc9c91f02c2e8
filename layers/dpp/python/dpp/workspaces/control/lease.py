"""One process's hold on an operation while it does something (WS-7): by the row, by Postgres's clock, renewed as it
goes.

A process that dies leaves a lease that ends by itself; one that was held up for so long finds out at its next beat, or
when it wants to note what it did, and leaves. What it may still do until then, the provider answers by generation.
"""

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from dpp.platform.db.postgres import Connection, Database, named_rows
from dpp.workspaces import store
from dpp.workspaces.errors import LeaseLost
from dpp.workspaces.model import HomeContext, Workspace
from dpp.workspaces.rows import home_json, workspace_of
from dpp.workspaces.store import QUERIES, Writer

LEASE_SECONDS = 60
_RENEW_AFTER_SECONDS = 15.0


class Lease:
    """The hold of one process on one operation; called, it renews itself when that is due."""

    def __init__(
        self,
        database: Database,
        workspace: Workspace,
        owner: UUID,
        clock: Callable[[], datetime | None],
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self.workspace = workspace
        self.owner = owner
        self._database = database
        self._clock = clock
        self._elapsed = elapsed
        self._renewed = elapsed()

    def __call__(self) -> None:
        """Renew it where 15 s have passed. Raises LeaseLost, DependencyUnavailable."""
        if self._elapsed() - self._renewed >= _RENEW_AFTER_SECONDS:
            self.renew()

    def renew(self) -> None:
        """Renew it. Raises LeaseLost where another process has the operation, or it is over."""
        params = self._params() | {"lease_seconds": LEASE_SECONDS}
        with (
            self._database.connection() as connection,
            store.writing(connection, Writer.RECONCILER),
        ):
            held = connection.execute(QUERIES["renew_lease"], params).fetchall()
        if not held:
            raise LeaseLost
        self._renewed = self._elapsed()

    def note_action(self, archive_key: str | None, home: HomeContext) -> Workspace:
        """Write what was done and give the lease back. Raises LeaseLost."""
        return self._note("note_action", {"archive_key": archive_key, "home_ctx": Jsonb(home_json(home))})

    def note_outage(self, home: HomeContext, backoff_seconds: int) -> Workspace:
        """Write that the provider did not answer and give the lease back. Raises LeaseLost."""
        return self._note(
            "note_outage", {"home_ctx": Jsonb(home_json(home)), "backoff_seconds": backoff_seconds}
        )

    def now(self, connection: Connection) -> datetime:
        """Postgres's clock."""
        return store.clock(connection, self._clock())

    def _note(self, name: str, more: dict[str, object]) -> Workspace:
        with (
            self._database.connection() as connection,
            store.writing(connection, Writer.RECONCILER),
        ):
            rows = named_rows(connection, QUERIES[name], self._params() | more)
        if not rows:
            raise LeaseLost
        return workspace_of(rows[0])

    def _params(self) -> dict[str, object]:
        return {
            "workspace_id": self.workspace.workspace_id,
            "op_id": self.workspace.op_id,
            "owner": self.owner,
            "now": self._clock(),
        }


def take(database: Database, decided_on: Workspace, clock: Callable[[], datetime | None]) -> Lease | None:
    """A workspace's operation, for this process; None where another has it, or what was decided on holds no more."""
    owner = uuid4()
    params = {
        "workspace_id": decided_on.workspace_id,
        "op_id": decided_on.op_id,
        "owner": owner,
        "lease_seconds": LEASE_SECONDS,
        "acted_at": decided_on.acted_at,
        "observed_at": decided_on.observed_at,
        "now": clock(),
    }
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        rows = named_rows(connection, QUERIES["take_lease"], params)
    return Lease(database, workspace_of(rows[0]), owner, clock) if rows else None


def hand_over(
    database: Database, decided_on: Workspace, again_after_seconds: float, now: datetime | None = None
) -> bool:
    """Whether long work is this caller's to hand over now."""
    params = {
        "workspace_id": decided_on.workspace_id,
        "op_id": decided_on.op_id,
        "again_after_seconds": again_after_seconds,
        "now": now,
    }
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        return bool(connection.execute(QUERIES["hand_over"], params).fetchall())
