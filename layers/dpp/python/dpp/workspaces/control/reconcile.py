"""Take one step towards the desired state, decided from the database alone (003 §2 … §4; WS-5, WS-7, WS-8, WS-14).

Level-triggered: only the row carries state between calls. Each change is a compare-and-swap on the values it was
decided on, so that one of two concurrent reconcilers changes nothing. After a crash at any point, the next observation,
from the queue or a tick, continues.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.control.act import Clock, act, count_failure
from dpp.workspaces.control.planner import OBSERVE_IN_OPERATION_SECONDS, Kind, Step, next_step
from dpp.workspaces.control.retry_policy import RESTART_WINDOW_SECONDS
from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.machine import LONG_ACTIONS
from dpp.workspaces.model import ErrorInfo, HomeContext, Operation, Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.store import Writer


class Outcome(StrEnum):
    """The outcome of a call."""

    MOVED = "MOVED"
    """Something changed: observe again at once."""
    IDLE = "IDLE"
    """There is nothing to do now."""
    OVERTAKEN = "OVERTAKEN"
    """Another process changed the row first."""
    LONG = "LONG"
    """The action takes long, and is left to the function `workspaces_storage`."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The outcome and the decided step. `workspace`: as it was read. `outage`: the dependency that did not answer."""

    outcome: Outcome
    step: Step
    workspace: Workspace
    outage: str | None = None


def reconcile(
    database: Database, provider: Provider, workspace: Workspace, clock: Clock, *, does_long_work: bool
) -> ReconcileResult:
    """Take the next step of a workspace that was just read.

    If `does_long_work` is false, an action that may take long is not done; the outcome is LONG. Raises
    DependencyUnavailable.
    """
    now = database.using(store.clock, clock())
    if workspace.lease_until is not None and workspace.lease_until > now:
        held = Step(
            Kind.WAIT, "A process is working on the operation.", observe_in_seconds=OBSERVE_IN_OPERATION_SECONDS
        )
        return ReconcileResult(Outcome.IDLE, held, workspace)
    step = next_step(workspace, now)
    match step.kind:
        case Kind.REST | Kind.WAIT | Kind.BLOCKED:
            return ReconcileResult(Outcome.IDLE, step, workspace)
        case Kind.ACT if step.action in LONG_ACTIONS and not does_long_work:
            return ReconcileResult(Outcome.LONG, step, workspace)
        case Kind.ACT:
            acted = act(database, provider, workspace, step, clock)
            outcome = Outcome.MOVED if acted.moved else Outcome.OVERTAKEN
            return ReconcileResult(outcome, step, workspace, acted.outage)
        case Kind.BEGIN | Kind.COMPLETE | Kind.FAIL | Kind.LOSE:
            with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
                moved = _write(connection, workspace, step, now)
    return ReconcileResult(Outcome.MOVED if moved else Outcome.OVERTAKEN, step, workspace)


def _write(connection: Connection, workspace: Workspace, step: Step, now: datetime) -> bool:
    """Store a step that only changes the row."""
    match step.kind:
        case Kind.BEGIN:
            return store.begin(connection, workspace, step.operation, new_id(), now) is not None
        case Kind.COMPLETE:
            home, starts = _home_after(workspace), _starts_after(workspace)
            return store.complete(connection, workspace, home, starts, now) is not None
        case _:
            error = _error(workspace, step, now)
            if error.is_terminal:
                return store.give_up(connection, workspace, error, None, now) is not None
            failed = store.note_failure(connection, workspace, error, home=workspace.home_ctx, now=now)
            return failed is not None


def _error(workspace: Workspace, step: Step, now: datetime) -> ErrorInfo:
    failure = OperationFailed(step.reason, step.why, is_terminal=step.is_terminal)
    counted = count_failure(workspace, failure, now)
    before = workspace.error_info
    if step.kind is Kind.FAIL and step.is_terminal and before is not None:
        return replace(counted, retry_count=before.retry_count)  # it was counted when it failed
    return counted


def _home_after(workspace: Workspace) -> HomeContext:
    """The home context after the operation: without a marker if the volume is gone."""
    home = replace(workspace.home_ctx, last_action=None)
    if workspace.operation is Operation.ARCHIVING:
        return HomeContext(archive=home.archive)
    return HomeContext() if workspace.operation is Operation.DELETING else home


def _starts_after(workspace: Workspace) -> int:
    """The number of starts in a row that each followed the previous one within the restart window."""
    if workspace.operation is not Operation.STARTING:
        return 0
    since, began = workspace.settled_at, workspace.op_started_at
    if since is None or began is None or (began - since).total_seconds() >= RESTART_WINDOW_SECONDS:
        return 1
    return workspace.start_count + 1
