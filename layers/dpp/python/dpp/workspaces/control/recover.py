"""A person ends an ERROR (003 §1, §10): it is tried again, goes on from an archive that they choose, or begins empty.

Nothing else ends one. Where a home was lost the person says what takes its place, since every answer gives something
up.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.archives.garbage import Place
from dpp.workspaces.control.conditions import CONTAINER_WITHOUT_VOLUME
from dpp.workspaces.control.planner import DATA_LOST
from dpp.workspaces.errors import ArchiveUnknown, NotRecoverable, WorkspaceNotFound
from dpp.workspaces.machine import is_fresh
from dpp.workspaces.model import HEALTHY, Archive, HomeContext, Operation, Workspace
from dpp.workspaces.ports import Archives
from dpp.workspaces.store import Writer


class Way(StrEnum):
    """How a workspace goes on."""

    RETRY = "RETRY"
    """As it stands: what was wrong is mended."""
    FROM_ARCHIVE = "FROM_ARCHIVE"
    """From an archive: what is newer than it is given up."""
    KEEP_VOLUME = "KEEP_VOLUME"
    """With the home that stands on its volume: the archive is given up, and a new one made when it is next archived."""
    STOP_CONTAINER = "STOP_CONTAINER"
    """A container that runs without its volume is stopped; what became of the home is told afterwards."""
    EMPTY = "EMPTY"
    """With an empty home: all of it is given up. Its archives go by the collector's rules."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a person orders. `archive_key` for FROM_ARCHIVE; None: the one that the workspace names."""

    way: Way
    actor: str
    reason: str
    archive_key: str | None = None


def recover(
    recovery: Recovery,
    workspace_id: UUID,
    database: Database,
    archives: Archives,
    now: datetime | None = None,
) -> Workspace:
    """Take the error off. Raises WorkspaceNotFound, NotRecoverable, ArchiveUnknown."""
    with database.connection() as connection:
        workspace = store.find(connection, workspace_id)
    if workspace is None:
        raise WorkspaceNotFound
    if workspace.error_info is None and not is_fresh(workspace):
        raise NotRecoverable("The monitor has not looked since it was recovered: wait for its look.")
    if recovery.way is Way.STOP_CONTAINER:
        return _stop(recovery, workspace, database, now)
    archive_key, home = _after(recovery, workspace, archives)
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        store.say_who(connection, recovery.actor, f"{recovery.way}: {recovery.reason}"[:500])
        after = store.recover(connection, workspace, archive_key, home, now)
    if after is None:
        raise NotRecoverable(phase=workspace.phase.value, operation=workspace.operation.value)
    return after


def _stop(recovery: Recovery, workspace: Workspace, database: Database, now: datetime | None) -> Workspace:
    """Have the reconciler stop it: the one operation that begins in ERROR, since a person said so."""
    health = workspace.conditions.get(HEALTHY)
    if health is None or health.reason != CONTAINER_WITHOUT_VOLUME:
        raise NotRecoverable("No container runs without its volume.")
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        store.say_who(connection, recovery.actor, f"{recovery.way}: {recovery.reason}"[:500])
        begun = store.begin(connection, workspace, Operation.STOPPING, new_id(), now)
    if begun is None:
        raise NotRecoverable(phase=workspace.phase.value, operation=workspace.operation.value)
    return begun


def _after(recovery: Recovery, workspace: Workspace, archives: Archives) -> tuple[str | None, HomeContext]:
    """What the workspace names from now on."""
    match recovery.way:
        case Way.RETRY:
            error = workspace.error_info
            if error is not None and error.reason == DATA_LOST:
                raise NotRecoverable(
                    "The home is lost: say from which archive it goes on, or that it begins empty."
                )
            return workspace.archive_key, replace(workspace.home_ctx, last_action=None)
        case Way.KEEP_VOLUME:
            if not workspace.volume_ready or workspace.home_ctx.restore_marker is None:
                raise NotRecoverable("No volume with a whole home is seen.")
            return None, replace(workspace.home_ctx, archive=None, last_action=None)
        case Way.FROM_ARCHIVE | Way.EMPTY if workspace.volume_ready:
            raise NotRecoverable("A volume stands, and may hold a home: nothing takes its place.")
        case Way.FROM_ARCHIVE:
            archive = _proved(recovery.archive_key or workspace.archive_key, workspace, archives)
            return archive.key, HomeContext(archive=archive)
        case Way.EMPTY:
            return None, HomeContext()
        case Way.STOP_CONTAINER:
            raise AssertionError("it is an operation, and no change of what is named")


def _proved(key: str | None, workspace: Workspace, archives: Archives) -> Archive:
    place = None if key is None else Place.of(key)
    if key is None or place is None or place.workspace_id != workspace.workspace_id:
        raise ArchiveUnknown
    proof = archives.proof(key)
    if proof is None:
        raise ArchiveUnknown
    return proof
