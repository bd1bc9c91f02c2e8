"""Lease of an operation to one process (WS-7): stored in the row, by Postgres's clock, renewed during long work.

The lease of a process that dies expires. A process that was delayed beyond its lease finds out at its next heartbeat,
or when it records its action, and stops. Its calls until then can't harm a later volume, since they name a generation.
"""

import time
from collections.abc import Callable
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.rows import row_as
from dpp.workspaces import store
from dpp.workspaces.errors import LeaseLost
from dpp.workspaces.model import HomeContext, Workspace
from dpp.workspaces.rows import home_json
from dpp.workspaces.store import QUERIES, Writer

LEASE_SECONDS = 60
_RENEW_AFTER_SECONDS = 15.0


class Lease:
    """The lease of one process on one operation. A heartbeat (ports.Heartbeat): a call renews it when that is due."""

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
        """Renew the lease if 15 s have passed. Raises LeaseLost, DependencyUnavailable."""
        if self._elapsed() - self._renewed >= _RENEW_AFTER_SECONDS:
            self.renew()

    def renew(self) -> None:
        """Renew the lease. Raises LeaseLost if another process has the operation, or it has ended."""
        params = self._params() | {"lease_seconds": LEASE_SECONDS}
        with self._database.connection() as connection, store.writing(connection, Writer.RECONCILER):
            held = connection.execute(QUERIES["renew_lease"], params).fetchall()
        if not held:
            raise LeaseLost
        self._renewed = self._elapsed()

    def note_action(self, archive_key: str | None, home: HomeContext) -> Workspace:
        """Record a completed action and release the lease. Raises LeaseLost."""
        return self._note("note_action", {"archive_key": archive_key, "home_ctx": Jsonb(home_json(home))})

    def note_outage(self, home: HomeContext, backoff_seconds: int) -> Workspace:
        """Record that the provider did not answer and release the lease. Raises LeaseLost."""
        return self._note("note_outage", {"home_ctx": Jsonb(home_json(home)), "backoff_seconds": backoff_seconds})

    def now(self, connection: Connection) -> datetime:
        """The time by Postgres's clock."""
        return store.clock(connection, self._clock())

    def _note(self, name: str, more: dict[str, object]) -> Workspace:
        with self._database.connection() as connection, store.writing(connection, Writer.RECONCILER):
            noted = row_as(Workspace, connection, QUERIES[name], self._params() | more)
        if noted is None:
            raise LeaseLost
        return noted

    def _params(self) -> dict[str, object]:
        return {
            "workspace_id": self.workspace.workspace_id,
            "op_id": self.workspace.op_id,
            "owner": self.owner,
            "now": self._clock(),
        }


def acquire(database: Database, decided_on: Workspace, clock: Callable[[], datetime | None]) -> Lease | None:
    """Lease the operation to this process; None if another has it, or the row no longer matches the decision."""
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
        leased = row_as(Workspace, connection, QUERIES["acquire_lease"], params)
    return None if leased is None else Lease(database, leased, owner, clock)


def hand_over(
    database: Database, decided_on: Workspace, again_after_seconds: float, now: datetime | None = None
) -> bool:
    """True if the caller is to hand the long work over now."""
    params = {
        "workspace_id": decided_on.workspace_id,
        "op_id": decided_on.op_id,
        "again_after_seconds": again_after_seconds,
        "now": now,
    }
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        return bool(connection.execute(QUERIES["hand_over"], params).fetchall())
