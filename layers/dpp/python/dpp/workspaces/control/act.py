"""Do one thing of an operation, under its lease (003 §7, §8, §10; WS-10 … WS-12, WS-14).

What was done is written down afterwards and believed when it is seen. A crash in between leaves it done and unwritten:
the next process does it again, which every port answers as one that was done already, or goes on where it was left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable
from dpp.workspaces import store
from dpp.workspaces.control import lease
from dpp.workspaces.control.lease import Lease
from dpp.workspaces.control.planner import Step
from dpp.workspaces.control.retry_policy import backoff_seconds
from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.machine import Action
from dpp.workspaces.model import ErrorInfo, HomeContext, Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.providers.home_storage import archive_home, empty_home, restore_home
from dpp.workspaces.store import Writer

type Clock = Callable[[], datetime | None]
"""Moves time in tests; None: Postgres's own (D1)."""


@dataclass(frozen=True, slots=True)
class _Done:
    """What an action leaves in the reconciler's columns."""

    archive_key: str | None
    home: HomeContext


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a try. `moved` false: another process has the operation. `outage`: who did not answer."""

    moved: bool
    outage: str | None = None


def act(database: Database, provider: Provider, workspace: Workspace, step: Step, clock: Clock) -> Acted:
    """Do what the step says.

    An outage of the provider is noted and waited for; Postgres's raises DependencyUnavailable, and the lease ends
    alone.
    """
    held = lease.take(database, workspace, clock)
    if held is None:
        return Acted(moved=False)
    try:
        return Acted(moved=True, outage=_act(database, provider, held, step))
    except LeaseLost:
        return Acted(moved=False)


def _act(database: Database, provider: Provider, held: Lease, step: Step) -> str | None:
    """Do it and note what came of it; who did not answer. Raises LeaseLost where another process has it by then."""
    if step.action is None:
        raise AssertionError("a step that is nothing to do")
    before = held.workspace
    home = replace(before.home_ctx, last_action=step.action.value)
    try:
        done = _ACTIONS[step.action](provider, before, held)
    except OperationFailed as failure:
        _note_failure(database, held, home, failure)
    except DependencyUnavailable as outage:
        if outage.dependency == PostgresUnavailable.dependency:
            raise
        held.note_outage(home, backoff_seconds(before.error_count + 1))
        return outage.dependency
    else:
        held.note_action(done.archive_key, replace(done.home, last_action=step.action.value))
    return None


def failed_once_more(workspace: Workspace, failure: OperationFailed, now: datetime) -> ErrorInfo:
    """The error of an operation that failed so."""
    before = workspace.error_info
    same = before is not None and before.operation is workspace.operation
    return ErrorInfo(
        reason=failure.reason,
        message=failure.message[:500],
        is_terminal=failure.is_terminal,
        retry_count=(before.retry_count if before is not None and same else 0) + 1,
        operation=workspace.operation,
        failed_at=now,
        context={"op_id": str(workspace.op_id)},
    )


def _note_failure(database: Database, held: Lease, home: HomeContext, failure: OperationFailed) -> None:
    """Count it; what is terminal ends the operation at once, in one statement (WS-7)."""
    before = held.workspace
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        now = held.now(connection)
        error = failed_once_more(before, failure, now)
        if error.is_terminal:
            noted = store.give_up(connection, before, error, held.owner, now)
        else:
            noted = store.note_failure(connection, before, error, home=home, owner=held.owner, now=now)
    if noted is None:
        raise LeaseLost


def _write_empty_archive(provider: Provider, workspace: Workspace, held: Lease) -> _Done:
    archive = empty_home(
        provider.archives, workspace.workspace_id, _op(workspace), held, homes=provider.homes
    )
    return _Done(archive.key, HomeContext(archive=archive))


def _restore_home(provider: Provider, workspace: Workspace, held: Lease) -> _Done:
    archive = workspace.home_ctx.archive
    if archive is None or archive.key != workspace.archive_key:
        found = None if workspace.archive_key is None else provider.archives.proof(workspace.archive_key)
        if found is None:
            raise OperationFailed("ArchiveUnproved", "The archive was never proved.", is_terminal=True)
        archive = found
    volume = restore_home(
        provider.volumes,
        provider.archives,
        workspace.workspace_id,
        _op(workspace),
        archive,
        held,
        homes=provider.homes,
    )
    home = HomeContext(restore_marker=volume.restore_marker, generation=volume.generation, archive=archive)
    return _Done(workspace.archive_key, home)


def _start_container(provider: Provider, workspace: Workspace, _held: Lease) -> _Done:
    volume = provider.volumes.find(workspace.workspace_id)
    if volume is None or volume.generation != workspace.home_ctx.generation:
        raise OperationFailed("VolumeNotFound", "The volume that holds the home is not there.")
    provider.containers.start(workspace.workspace_id, volume)
    return _Done(workspace.archive_key, workspace.home_ctx)


def _stop_container(provider: Provider, workspace: Workspace, _held: Lease) -> _Done:
    provider.containers.stop(workspace.workspace_id)
    return _Done(workspace.archive_key, workspace.home_ctx)


def _archive_home(provider: Provider, workspace: Workspace, held: Lease) -> _Done:
    archive = archive_home(
        provider.volumes,
        provider.archives,
        workspace.workspace_id,
        _op(workspace),
        held,
        homes=provider.homes,
    )
    return _Done(archive.key, replace(workspace.home_ctx, archive=archive))


def _delete_volume(provider: Provider, workspace: Workspace, _held: Lease) -> _Done:
    """The generation that was archived and no other; of a deleted workspace, whatever there is."""
    generation = workspace.home_ctx.generation if workspace.deleted_at is None else None
    provider.volumes.delete(workspace.workspace_id, generation)
    return _Done(workspace.archive_key, workspace.home_ctx)


def _forget_archive(_provider: Provider, _workspace: Workspace, _held: Lease) -> _Done:
    """The object itself is the collector's, two hours later (003 §9)."""
    return _Done(None, HomeContext())


def _op(workspace: Workspace) -> UUID:
    if workspace.op_id is None:
        raise AssertionError("an operation without its id")
    return workspace.op_id


_ACTIONS: dict[Action, Callable[[Provider, Workspace, Lease], _Done]] = {
    Action.WRITE_EMPTY_ARCHIVE: _write_empty_archive,
    Action.RESTORE_HOME: _restore_home,
    Action.START_CONTAINER: _start_container,
    Action.STOP_CONTAINER: _stop_container,
    Action.ARCHIVE_HOME: _archive_home,
    Action.DELETE_VOLUME: _delete_volume,
    Action.FORGET_ARCHIVE: _forget_archive,
}
