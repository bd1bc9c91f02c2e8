"""Use cases of a workspace's owner: read it, change its desired state, connect, delete (003 §3, §5; WS-6, WS-8).

An unknown id, another tenant's id and an invalid id get the same answer (D13). Each change is one statement, followed
by a hint to observe the workspace.
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
from dpp.workspaces.control.hints import send_hints
from dpp.workspaces.errors import NotDeletable, WorkspaceDeleted, WorkspaceNotFound
from dpp.workspaces.machine import DELETABLE
from dpp.workspaces.model import Phase, Workspace
from dpp.workspaces.store import Change, Event, Writer

CONNECT = "connect"
"""The actor in events if a workspace was woken by `connect`."""

MAX_EVENTS = 100
"""Events that are listed for a workspace, the latest ones."""

_UNKNOWN = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Owner:
    """The tenant of a request, with the connections and clients that its use cases use."""

    tenant_id: str
    database: Database
    observe_queue: Queue


@dataclass(frozen=True, slots=True)
class Page:
    """A page of workspaces. `below`: the sequence before which the next page starts, or None on the last page."""

    workspaces: Sequence[Workspace]
    below: int | None


def list_page(owner: Owner, *, phase: Phase | None, below: int | None, limit: int) -> Page:
    """A page of the owner's workspaces, newest first."""
    found = owner.database.using(store.page, owner.tenant_id, phase=phase, below=below, limit=limit + 1)
    more = len(found) > limit
    return Page(found[:limit], found[limit - 1].sequence if more else None)


def read(owner: Owner, workspace_id: str) -> Workspace:
    """The workspace. Raises WorkspaceNotFound."""
    found = owner.database.using(store.find, parse_uuid(workspace_id) or _UNKNOWN)
    if found is None or found.tenant_id != owner.tenant_id:
        raise WorkspaceNotFound
    return found


def list_events(owner: Owner, workspace_id: str) -> list[Event]:
    """The workspace's latest events, newest first. Raises WorkspaceNotFound."""
    found = read(owner, workspace_id)
    return owner.database.using(store.events, found.workspace_id, MAX_EVENTS)


def change(owner: Owner, workspace_id: str, requested: Change, now: datetime | None = None) -> Workspace:
    """Apply a change. Raises WorkspaceNotFound, WorkspaceDeleted."""
    known = read(owner, workspace_id).workspace_id
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        changed = store.change(connection, known, owner.tenant_id, requested, by=OWNER, now=now)
    if changed is None:
        raise WorkspaceDeleted
    send_hints(owner.observe_queue, [known])
    return changed


def connect(owner: Owner, workspace_id: str, now: datetime | None = None) -> Workspace:
    """Record a use, and wake the workspace if it does not run. Raises WorkspaceNotFound, WorkspaceDeleted."""
    known = read(owner, workspace_id)
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        woken = store.wake(connection, known.workspace_id, owner.tenant_id, CONNECT, now)
    if woken is None:
        raise WorkspaceDeleted
    if woken.phase is not Phase.RUNNING:
        send_hints(owner.observe_queue, [known.workspace_id])
    return woken


def delete(owner: Owner, workspace_id: str, now: datetime | None = None) -> Workspace:
    """Delete the workspace with its archives. Repeatable. Raises WorkspaceNotFound, NotDeletable."""
    known = read(owner, workspace_id)
    if known.deleted_at is not None:
        return known
    with owner.database.connection() as connection, store.writing(connection, Writer.API):
        deleted = store.delete(
            connection, known.workspace_id, owner.tenant_id, phases=sorted(DELETABLE), by=OWNER, now=now
        )
    if deleted is None:
        current = read(owner, workspace_id)
        if current.deleted_at is not None:
            return current
        raise NotDeletable(current.phase.value, current.operation.value)
    send_hints(owner.observe_queue, [known.workspace_id])
    return deleted
