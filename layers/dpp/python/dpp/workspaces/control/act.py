"""Perform one action of an operation, under its lease (003 §7, §8, §10; WS-10 … WS-12, WS-14).

The action is recorded after it was done, and its effect counts once it is observed. After a crash in between, the next
process repeats the action; every port either finds that it was done or continues it.
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
from dpp.workspaces.providers.home_storage import archive_empty_home, archive_home, restore_home
from dpp.workspaces.store import Writer

type Clock = Callable[[], datetime | None]
"""Sets the time in tests; None: Postgres's clock (D1)."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Values of the reconciler's columns after an action."""

    archive_key: str | None
    home: HomeContext


@dataclass(frozen=True, slots=True)
class ActResult:
    """Result of an attempt. `moved` false: another process has the operation. `outage`: the failed dependency."""

    moved: bool
    outage: str | None = None


def act(database: Database, provider: Provider, workspace: Workspace, step: Step, clock: Clock) -> ActResult:
    """Perform the action of a step.

    An outage of the provider is recorded, and the action retried later. An outage of Postgres raises
    DependencyUnavailable, and the lease expires.
    """
    held = lease.acquire(database, workspace, clock)
    if held is None:
        return ActResult(moved=False)
    try:
        return ActResult(moved=True, outage=_act(database, provider, held, step))
    except LeaseLost:
        return ActResult(moved=False)


def _act(database: Database, provider: Provider, held: Lease, step: Step) -> str | None:
    """Perform the action, record the result, and return the dependency that failed, if any. Raises LeaseLost."""
    if step.action is None:
        raise AssertionError("a step without an action")
    before = held.workspace
    home = replace(before.home_ctx, last_action=step.action.value)
    try:
        result = _ACTIONS[step.action](provider, before, held)
    except OperationFailed as failure:
        _record_failure(database, held, home, failure)
    except DependencyUnavailable as outage:
        if outage.dependency == PostgresUnavailable.dependency:
            raise
        held.note_outage(home, backoff_seconds(before.error_count + 1))
        return outage.dependency
    else:
        held.note_action(result.archive_key, replace(result.home, last_action=step.action.value))
    return None


def count_failure(workspace: Workspace, failure: OperationFailed, now: datetime) -> ErrorInfo:
    """The operation's error after this failure, with one more retry counted."""
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


def _record_failure(database: Database, held: Lease, home: HomeContext, failure: OperationFailed) -> None:
    """Record a failure; a terminal one ends the operation in the same statement (WS-7)."""
    before = held.workspace
    with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        now = held.now(connection)
        error = count_failure(before, failure, now)
        if error.is_terminal:
            recorded = store.give_up(connection, before, error, held.owner, now)
        else:
            recorded = store.note_failure(connection, before, error, home=home, owner=held.owner, now=now)
    if recorded is None:
        raise LeaseLost


def _write_empty_archive(provider: Provider, workspace: Workspace, held: Lease) -> _Recorded:
    archive = archive_empty_home(provider.archives, workspace.workspace_id, _op(workspace), held, homes=provider.homes)
    return _Recorded(archive.key, HomeContext(archive=archive))


def _restore_home(provider: Provider, workspace: Workspace, held: Lease) -> _Recorded:
    archive = workspace.home_ctx.archive
    if archive is None or archive.key != workspace.archive_key:
        found = None if workspace.archive_key is None else provider.archives.read_proof(workspace.archive_key)
        if found is None:
            raise OperationFailed("ArchiveUnproved", "The archive has no proof.", is_terminal=True)
        archive = found
    volume = restore_home(
        provider.volumes, provider.archives, workspace.workspace_id, _op(workspace), archive, held, homes=provider.homes
    )
    home = HomeContext(restore_marker=volume.restore_marker, generation=volume.generation, archive=archive)
    return _Recorded(workspace.archive_key, home)


def _start_container(provider: Provider, workspace: Workspace, _held: Lease) -> _Recorded:
    volume = provider.volumes.find(workspace.workspace_id)
    if volume is None or volume.generation != workspace.home_ctx.generation:
        raise OperationFailed("VolumeNotFound", "The volume that holds the home does not exist.")
    provider.containers.start(workspace.workspace_id, volume)
    return _Recorded(workspace.archive_key, workspace.home_ctx)


def _stop_container(provider: Provider, workspace: Workspace, _held: Lease) -> _Recorded:
    provider.containers.stop(workspace.workspace_id)
    return _Recorded(workspace.archive_key, workspace.home_ctx)


def _archive_home(provider: Provider, workspace: Workspace, held: Lease) -> _Recorded:
    archive = archive_home(
        provider.volumes, provider.archives, workspace.workspace_id, _op(workspace), held, homes=provider.homes
    )
    return _Recorded(archive.key, replace(workspace.home_ctx, archive=archive))


def _delete_volume(provider: Provider, workspace: Workspace, _held: Lease) -> _Recorded:
    """Delete the generation that was archived; for a deleted workspace, any generation."""
    generation = workspace.home_ctx.generation if workspace.deleted_at is None else None
    provider.volumes.delete(workspace.workspace_id, generation)
    return _Recorded(workspace.archive_key, workspace.home_ctx)


def _forget_archive(_provider: Provider, _workspace: Workspace, _held: Lease) -> _Recorded:
    """Clear the reference; the collection deletes the object two hours later (003 §9)."""
    return _Recorded(None, HomeContext())


def _op(workspace: Workspace) -> UUID:
    if workspace.op_id is None:
        raise AssertionError("an operation without an id")
    return workspace.op_id


_ACTIONS: dict[Action, Callable[[Provider, Workspace, Lease], _Recorded]] = {
    Action.WRITE_EMPTY_ARCHIVE: _write_empty_archive,
    Action.RESTORE_HOME: _restore_home,
    Action.START_CONTAINER: _start_container,
    Action.STOP_CONTAINER: _stop_container,
    Action.ARCHIVE_HOME: _archive_home,
    Action.DELETE_VOLUME: _delete_volume,
    Action.FORGET_ARCHIVE: _forget_archive,
}
