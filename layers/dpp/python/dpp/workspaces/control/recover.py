"""An operator ends an ERROR (003 §1, §10): retry, continue from a chosen archive, or start with an empty home.

Nothing else ends a terminal ERROR. If a home was lost, the operator chooses what replaces it, since every choice gives
something up.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.archives.garbage import ArchiveLocation
from dpp.workspaces.control.conditions import CONTAINER_WITHOUT_VOLUME
from dpp.workspaces.control.planner import DATA_LOST
from dpp.workspaces.errors import ArchiveUnknown, NotRecoverable, WorkspaceNotFound
from dpp.workspaces.machine import is_fresh
from dpp.workspaces.model import HEALTHY, Archive, HomeContext, Operation, Workspace
from dpp.workspaces.ports import Archives
from dpp.workspaces.store import Writer


class RecoveryMethod(StrEnum):
    """The way a workspace continues after an ERROR."""

    RETRY = "RETRY"
    """As it is: the cause was fixed."""
    FROM_ARCHIVE = "FROM_ARCHIVE"
    """From an archive; newer content is given up."""
    KEEP_VOLUME = "KEEP_VOLUME"
    """With the home on its volume; the archive is given up, and the next ARCHIVING writes a new one."""
    STOP_CONTAINER = "STOP_CONTAINER"
    """Stop a container that runs without its volume; the state of the home is observed afterwards."""
    EMPTY = "EMPTY"
    """With an empty home; the old home is given up, and its archives are collected by the usual rules."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """An operator's order. `archive_key`: for FROM_ARCHIVE; None: the workspace's current one."""

    method: RecoveryMethod
    actor: str
    reason: str
    archive_key: str | None = None


def recover(
    recovery: Recovery, workspace_id: UUID, database: Database, archives: Archives, now: datetime | None = None
) -> Workspace:
    """Clear the error. Raises WorkspaceNotFound, NotRecoverable, ArchiveUnknown."""
    workspace = database.using(store.find, workspace_id)
    if workspace is None:
        raise WorkspaceNotFound
    if workspace.error_info is None and not is_fresh(workspace):
        raise NotRecoverable("The workspace has not been observed since it was recovered: try again in a few seconds.")
    if recovery.method is RecoveryMethod.STOP_CONTAINER:
        return _stop(recovery, workspace, database, now)
    archive_key, home = _after(recovery, workspace, archives)
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        store.set_event_actor(connection, recovery.actor, f"{recovery.method}: {recovery.reason}"[:500])
        after = store.recover(connection, workspace, archive_key, home, now)
    if after is None:
        raise NotRecoverable(phase=workspace.phase.value, operation=workspace.operation.value)
    return after


def _stop(recovery: Recovery, workspace: Workspace, database: Database, now: datetime | None) -> Workspace:
    """Begin STOPPING, the only operation that may begin in ERROR, on an operator's order."""
    health = workspace.conditions.get(HEALTHY)
    if health is None or health.reason != CONTAINER_WITHOUT_VOLUME:
        raise NotRecoverable("The workspace has no container that runs without its volume.")
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        store.set_event_actor(connection, recovery.actor, f"{recovery.method}: {recovery.reason}"[:500])
        begun = store.begin(connection, workspace, Operation.STOPPING, new_id(), now)
    if begun is None:
        raise NotRecoverable(phase=workspace.phase.value, operation=workspace.operation.value)
    return begun


def _after(recovery: Recovery, workspace: Workspace, archives: Archives) -> tuple[str | None, HomeContext]:
    """The archive key and the home context after the recovery."""
    match recovery.method:
        case RecoveryMethod.RETRY:
            error = workspace.error_info
            if error is not None and error.reason == DATA_LOST:
                raise NotRecoverable("The home is lost: recover it from an archive, or with an empty home.")
            return workspace.archive_key, replace(workspace.home_ctx, last_action=None)
        case RecoveryMethod.KEEP_VOLUME:
            if not workspace.volume_ready or workspace.home_ctx.restore_marker is None:
                raise NotRecoverable("The workspace has no volume with a complete home.")
            return None, replace(workspace.home_ctx, archive=None, last_action=None)
        case RecoveryMethod.FROM_ARCHIVE | RecoveryMethod.EMPTY if workspace.volume_ready:
            raise NotRecoverable("The workspace has a volume that may hold its home, which must not be replaced.")
        case RecoveryMethod.FROM_ARCHIVE:
            archive = _proved(recovery.archive_key or workspace.archive_key, workspace, archives)
            return archive.key, HomeContext(archive=archive)
        case RecoveryMethod.EMPTY:
            return None, HomeContext()
        case RecoveryMethod.STOP_CONTAINER:
            raise AssertionError("STOP_CONTAINER is an operation and changes no column here")


def _proved(key: str | None, workspace: Workspace, archives: Archives) -> Archive:
    location = None if key is None else ArchiveLocation.parse(key)
    if key is None or location is None or location.workspace_id != workspace.workspace_id:
        raise ArchiveUnknown
    proof = archives.read_proof(key)
    if proof is None:
        raise ArchiveUnknown
    return proof
