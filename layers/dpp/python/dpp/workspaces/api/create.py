"""Create a workspace, once a key (003 §3; WS-6): a row, and a hint to look at it.

A crash after the row was committed loses the hint, which the beat makes good within half a minute; the client, who
heard nothing, sends the same key again and gets the same workspace.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Connection, Database, named_rows
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.control.hints import hint
from dpp.workspaces.errors import IdempotencyConflict, TooManyWorkspaces
from dpp.workspaces.model import DesiredState, Workspace
from dpp.workspaces.rows import workspace_of
from dpp.workspaces.store import QUERIES, Writer

OWNER = "owner"
"""Its owner, as events name who asked."""


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """What a workspace begins with. Times to live in seconds; None: for ever."""

    name: str
    desired_state: DesiredState = DesiredState.RUNNING
    standby_ttl_seconds: int | None = None
    archive_ttl_seconds: int | None = None

    @property
    def hash(self) -> str:
        """SHA-256 in hexadecimal over what was asked for: the same under the same key, or it is refused."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Created:
    """The workspace, and whether it is new."""

    workspace: Workspace
    is_new: bool


def create(
    new: NewWorkspace,
    *,
    tenant_id: str,
    request_key: str,
    limit: int,
    database: Database,
    looks: Queue,
    now: datetime | None = None,
) -> Created:
    """The workspace of this key. Raises IdempotencyConflict, TooManyWorkspaces, DependencyUnavailable."""
    asked = {"tenant_id": tenant_id, "request_key": request_key}
    with database.connection() as connection:
        known = named_rows(connection, QUERIES["find_by_key"], asked)
        if not known:
            with store.writing(connection, Writer.API):
                created = _insert(connection, new, asked, limit, now)
            if created is not None:
                hint(looks, [created.workspace_id])
                return Created(created, is_new=True)
            known = named_rows(connection, QUERIES["find_by_key"], asked)
    (row,) = known
    if row["request_hash"] != new.hash:
        raise IdempotencyConflict
    return Created(workspace_of(row), is_new=False)


def _insert(
    connection: Connection, new: NewWorkspace, asked: dict[str, str], limit: int, now: datetime | None
) -> Workspace | None:
    """The new row; None where the key was used, also by a request that held the lock until now."""
    connection.execute(QUERIES["lock_tenant"], asked)
    if connection.execute(QUERIES["find_by_key"], asked).fetchall():
        return None
    (counted,) = connection.execute(QUERIES["count_of_tenant"], asked | {"at_most": limit}).fetchall()
    workspace_id: UUID = new_id()
    params = (
        asked
        | asdict(new)
        | {
            "workspace_id": workspace_id,
            "desired_state": new.desired_state.value,
            "request_hash": new.hash,
            "desired_by": OWNER,
            "now": now,
        }
    )
    if counted[0] >= limit:
        raise TooManyWorkspaces(limit=limit)
    rows = named_rows(connection, QUERIES["insert"], params)
    return workspace_of(rows[0]) if rows else None
