"""One step towards what was asked for, decided from the database alone (003 §2 … §4; WS-5, WS-7, WS-8, WS-14).

Level-triggered: nothing is remembered between two calls but the row. Each change is a compare-and-swap on what it was
decided on, so that of two reconcilers one finds that the other was there. A crash between any two lines is met by the
next look, which the queue or the minutely beat brings.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.ids import new_id
from dpp.workspaces import store
from dpp.workspaces.control.act import Clock, act, failed_once_more
from dpp.workspaces.control.planner import LOOK_IN_OPERATION_SECONDS, Kind, Step, next_step
from dpp.workspaces.control.retry_policy import RESTART_WINDOW_SECONDS
from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.machine import LONG
from dpp.workspaces.model import ErrorInfo, HomeContext, Operation, Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.store import Writer


class Outcome(StrEnum):
    """What came of a call."""

    MOVED = "MOVED"
    """Something changed: look again at once."""
    IDLE = "IDLE"
    """Nothing is to be done now."""
    OVERTAKEN = "OVERTAKEN"
    """Another process was there first."""
    LONG = "LONG"
    """What is to be done takes long, and was left to who has the time."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What came of a call, and the step that was decided. `workspace`: as it was read. `outage`: who did not answer."""

    outcome: Outcome
    step: Step
    workspace: Workspace
    outage: str | None = None


def reconcile(
    database: Database, provider: Provider, workspace: Workspace, clock: Clock, *, does_long: bool
) -> Reconciled:
    """Take the next step of a workspace as it was just read.

    `does_long` false: what may take long is not done but answered as LONG. Raises DependencyUnavailable.
    """
    with database.connection() as connection:
        now = store.clock(connection, clock())
    if workspace.lease_until is not None and workspace.lease_until > now:
        held = Step(Kind.WAIT, "It is being worked on.", look_in_seconds=LOOK_IN_OPERATION_SECONDS)
        return Reconciled(Outcome.IDLE, held, workspace)
    step = next_step(workspace, now)
    match step.kind:
        case Kind.REST | Kind.WAIT | Kind.BLOCKED:
            return Reconciled(Outcome.IDLE, step, workspace)
        case Kind.ACT if step.action in LONG and not does_long:
            return Reconciled(Outcome.LONG, step, workspace)
        case Kind.ACT:
            acted = act(database, provider, workspace, step, clock)
            outcome = Outcome.MOVED if acted.moved else Outcome.OVERTAKEN
            return Reconciled(outcome, step, workspace, acted.outage)
        case Kind.BEGIN | Kind.COMPLETE | Kind.FAIL | Kind.LOSE:
            with database.connection() as connection, store.writing(connection, Writer.RECONCILER):
                moved = _write(connection, workspace, step, now)
    return Reconciled(Outcome.MOVED if moved else Outcome.OVERTAKEN, step, workspace)


def _write(connection: Connection, workspace: Workspace, step: Step, now: datetime) -> bool:
    """A step that is nothing but a change of the row."""
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
    counted = failed_once_more(workspace, failure, now)
    before = workspace.error_info
    if step.kind is Kind.FAIL and step.is_terminal and before is not None:
        return replace(counted, retry_count=before.retry_count)  # it was counted when it failed
    return counted


def _home_after(workspace: Workspace) -> HomeContext:
    """What is known of the home once the operation is complete: no volume, no marker."""
    home = replace(workspace.home_ctx, last_action=None)
    if workspace.operation is Operation.ARCHIVING:
        return HomeContext(archive=home.archive)
    return HomeContext() if workspace.operation is Operation.DELETING else home


def _starts_after(workspace: Workspace) -> int:
    """How often a container was started and ended soon; only a start right after a start counts."""
    if workspace.operation is not Operation.STARTING:
        return 0
    since, began = workspace.settled_at, workspace.op_started_at
    if since is None or began is None or (began - since).total_seconds() >= RESTART_WINDOW_SECONDS:
        return 1
    return workspace.start_count + 1
