"""Create a workspace, once per idempotency key (003 §3; WS-6): insert a row, and send a hint to observe it.

A crash after the commit loses the hint; the next tick finds the workspace within half a minute. A client that got no
answer repeats the request with the same key and gets the same workspace.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Connection, Database, named_rows
from dpp.platform.db.rows import from_row, row_as
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.control.hints import send_hints
from dpp.workspaces.errors import IdempotencyConflict, TooManyWorkspaces
from dpp.workspaces.model import DesiredState, Workspace
from dpp.workspaces.store import QUERIES, Writer

OWNER = "owner"
"""The actor in events for requests of the owner."""


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """A request to create a workspace. Times to live in seconds; None: no limit."""

    name: str
    desired_state: DesiredState = DesiredState.RUNNING
    standby_ttl_seconds: int | None = None
    archive_ttl_seconds: int | None = None

    @property
    def hash(self) -> str:
        """SHA-256 of the request, in hexadecimal. A repeated key must come with the same hash."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Created:
    """The workspace, and whether this request created it."""

    workspace: Workspace
    is_new: bool


def create(
    new: NewWorkspace,
    *,
    tenant_id: str,
    request_key: str,
    limit: int,
    database: Database,
    observe_queue: Queue,
    now: datetime | None = None,
) -> Created:
    """Create the workspace, or find the one of this key. Raises IdempotencyConflict, TooManyWorkspaces."""
    key = {"tenant_id": tenant_id, "request_key": request_key}
    with database.connection() as connection:
        known = named_rows(connection, QUERIES["find_by_key"], key)
        if not known:
            with store.writing(connection, Writer.API):
                created = _insert(connection, new, key, limit, now)
            if created is not None:
                send_hints(observe_queue, [created.workspace_id])
                return Created(created, is_new=True)
            known = named_rows(connection, QUERIES["find_by_key"], key)
    (row,) = known
    if row["request_hash"] != new.hash:
        raise IdempotencyConflict
    return Created(from_row(Workspace, row), is_new=False)


def _insert(
    connection: Connection, new: NewWorkspace, key: dict[str, str], limit: int, now: datetime | None
) -> Workspace | None:
    """The new row; None if the key was used before, including by a request that held the lock until now."""
    connection.execute(QUERIES["lock_tenant"], key)
    if connection.execute(QUERIES["find_by_key"], key).fetchall():
        return None
    (counted,) = connection.execute(QUERIES["count_of_tenant"], key | {"at_most": limit}).fetchall()
    if counted[0] >= limit:
        raise TooManyWorkspaces(limit=limit)
    values = {
        "workspace_id": new_id(),
        "desired_state": new.desired_state.value,
        "request_hash": new.hash,
        "desired_by": OWNER,
        "now": now,
    }
    return row_as(Workspace, connection, QUERIES["insert"], key | asdict(new) | values)
