"""What an owner does with a workspace: read it, change what is wanted of it, connect, delete (003 §3, §5; WS-6, WS-8).

What is unknown, foreign or no id has one answer (D13). Each change is one statement, and a hint to look.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.ids import parse_uuid
from dpp.workspaces import store
from dpp.workspaces.api.create import OWNER
from dpp.workspaces.control.hints import hint
from dpp.workspaces.errors import NotDeletable, WorkspaceDeleted, WorkspaceNotFound
from dpp.workspaces.machine import DELETABLE
from dpp.workspaces.model import Phase, Workspace
from dpp.workspaces.store import Change, Event, Writer

CONNECT = "connect"
"""Who wanted it to run, as events name it, where somebody connected to one that didn't."""

MAX_EVENTS = 100
"""So many of its events a workspace shows (issue: the last hundred)."""

_NOBODYS = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose workspaces, and where they are."""

    tenant_id: str
    database: Database
    looks: Queue


@dataclass(frozen=True, slots=True)
class Page:
    """Workspaces, and where the next page begins; None: there is none."""

    workspaces: Sequence[Workspace]
    below: int | None


def page(owner: Owner, *, phase: Phase | None, below: int | None, limit: int) -> Page:
    """An owner's workspaces, the newest first."""
    with owner.database.connection() as connection:
        found = store.page(connection, owner.tenant_id, phase=phase, below=below, limit=limit + 1)
    more = len(found) > limit
    return Page(found[:limit], found[limit - 1].sequence if more else None)


def read(owner: Owner, workspace_id: str) -> Workspace:
    """The workspace. Raises WorkspaceNotFound."""
    with owner.database.connection() as connection:
        found = store.find(connection, parse_uuid(workspace_id) or _NOBODYS)
    if found is None or found.tenant_id != owner.tenant_id:
        raise WorkspaceNotFound
    return found


def events(owner: Owner, workspace_id: str) -> list[Event]:
    """What happened to it, the newest first. Raises WorkspaceNotFound."""
    found = read(owner, workspace_id)
    with owner.database.connection() as connection:
        return store.events(connection, found.workspace_id, MAX_EVENTS)


def change(owner: Owner, workspace_id: str, wanted: Change, now: datetime | None = None) -> Workspace:
    """Change what is wanted of it. Raises WorkspaceNotFound, WorkspaceDeleted."""
    known = read(owner, workspace_id).workspace_id
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        changed = store.change(connection, known, owner.tenant_id, wanted, by=OWNER, now=now)
    if changed is None:
        raise WorkspaceDeleted
    hint(owner.looks, [known])
    return changed


def connect(owner: Owner, workspace_id: str, now: datetime | None = None) -> Workspace:
    """Note that it is used, and have it run if it doesn't. Raises WorkspaceNotFound, WorkspaceDeleted."""
    known = read(owner, workspace_id)
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        woken = store.wake(connection, known.workspace_id, owner.tenant_id, CONNECT, now)
    if woken is None:
        raise WorkspaceDeleted
    if woken.phase is not Phase.RUNNING:
        hint(owner.looks, [known.workspace_id])
    return woken


def delete(owner: Owner, workspace_id: str, now: datetime | None = None) -> Workspace:
    """Delete it, with its archives; again: as it stands. Raises WorkspaceNotFound, NotDeletable."""
    known = read(owner, workspace_id)
    if known.deleted_at is not None:
        return known
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        deleted = store.delete(
            connection, known.workspace_id, owner.tenant_id, phases=sorted(DELETABLE), by=OWNER, now=now
        )
    if deleted is None:
        stands = read(owner, workspace_id)
        if stands.deleted_at is not None:
            return stands
        raise NotDeletable(stands.phase.value, stands.operation.value)
    hint(owner.looks, [known.workspace_id])
    return deleted
