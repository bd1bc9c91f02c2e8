"""The state machine: operations, their actions, and when each is complete (003 §5, §7, §8; WS-8, WS-11).

The planner follows `OPERATIONS`, the table's trigger refuses any other change, and the diagram in docs/workspaces.md is
generated from it. An operation leads to a neighbouring phase and no further.

Two rules are stricter than the document, whose wording would lose a home:
- An archive belongs to an operation only if its key names that operation. A workspace that was restored before already
  has an `archive_key`, so "archive_key is set" (003 §8) would delete the volume with only the old archive left.
- A volume is deleted only after its archive was proved (read back completely) *and* then observed by the monitor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from dpp.platform.state_machine import StateMachine, Transition
from dpp.workspaces.model import DesiredState, Operation, Phase, Workspace, archive_key_of


class Action(StrEnum):
    """A single action on the provider, or on the reconciler's own columns."""

    WRITE_EMPTY_ARCHIVE = "WRITE_EMPTY_ARCHIVE"
    RESTORE_HOME = "RESTORE_HOME"
    START_CONTAINER = "START_CONTAINER"
    STOP_CONTAINER = "STOP_CONTAINER"
    ARCHIVE_HOME = "ARCHIVE_HOME"
    DELETE_VOLUME = "DELETE_VOLUME"
    FORGET_ARCHIVE = "FORGET_ARCHIVE"


LONG_ACTIONS = frozenset({Action.WRITE_EMPTY_ARCHIVE, Action.RESTORE_HOME, Action.ARCHIVE_HOME, Action.DELETE_VOLUME})
"""Actions whose duration grows with the home. The function `workspaces_storage` does them."""


@dataclass(frozen=True, slots=True)
class OperationRule:
    """One operation: its source and target phase, its deadline, and its actions.

    `action`: the next action for a workspace, or None while only an observation is missing. `complete`: whether the
    operation was observed to be complete (WS-1), which `complete_when` describes. `deadline_seconds`: for one attempt.
    """

    operation: Operation
    source: Phase | None
    target: Phase
    deadline_seconds: int
    actions: tuple[Action, ...]
    complete_when: str
    action: Callable[[Workspace], Action | None]
    complete: Callable[[Workspace], bool]


def is_fresh(workspace: Workspace) -> bool:
    """True if the latest observation is newer than the last action, or than the start of the operation."""
    since = workspace.acted_at or workspace.op_started_at or workspace.settled_at
    return workspace.observed_at is not None and (since is None or workspace.observed_at > since)


def has_own_archive(workspace: Workspace) -> bool:
    """True if `archive_key` names the archive of the current operation, and its proof is known (WS-11, WS-12)."""
    if workspace.op_id is None or workspace.archive_key is None:
        return False
    proof = workspace.home_ctx.archive
    own = archive_key_of(workspace.workspace_id, workspace.op_id)
    return workspace.archive_key == own and proof is not None and proof.key == own


def was_done(workspace: Workspace, action: Action) -> bool:
    """True if this was the operation's last action, and it neither failed nor met an outage."""
    if workspace.home_ctx.last_action != action or workspace.next_attempt_at is not None:
        return False
    error, acted_at = workspace.error_info, workspace.acted_at
    return error is None or (acted_at is not None and error.failed_at < acted_at)


def is_restored(workspace: Workspace) -> bool:
    """True if the volume was restored from the archive that `archive_key` names (WS-11)."""
    return workspace.archive_key is not None and workspace.home_ctx.restore_marker == workspace.archive_key


def _provision(workspace: Workspace) -> Action | None:
    return None if has_own_archive(workspace) else Action.WRITE_EMPTY_ARCHIVE


def _restore(workspace: Workspace) -> Action | None:
    gone = is_fresh(workspace) and not workspace.volume_ready
    return Action.RESTORE_HOME if gone or not is_restored(workspace) else None


def _start(workspace: Workspace) -> Action | None:
    return None if workspace.container_ready else Action.START_CONTAINER


def _stop(workspace: Workspace) -> Action | None:
    return None if workspace.container_gone else Action.STOP_CONTAINER


def _archive(workspace: Workspace) -> Action | None:
    if not has_own_archive(workspace):
        return Action.ARCHIVE_HOME if workspace.container_gone else Action.STOP_CONTAINER
    proved = workspace.archive_ready and is_fresh(workspace)
    return Action.DELETE_VOLUME if proved and workspace.volume_ready else None


def _discard(workspace: Workspace) -> Action | None:
    return Action.FORGET_ARCHIVE if workspace.archive_key is not None else None


def _delete(workspace: Workspace) -> Action | None:
    if not is_fresh(workspace):
        return None
    if not workspace.container_gone:
        return Action.STOP_CONTAINER
    if workspace.volume_ready or not _is_cleaned_up(workspace):
        return Action.DELETE_VOLUME
    return _discard(workspace)


def _is_cleaned_up(workspace: Workspace) -> bool:
    """True if the provider deleted the volume; leftovers of interrupted restores do not show in observations."""
    return was_done(workspace, Action.DELETE_VOLUME) or was_done(workspace, Action.FORGET_ARCHIVE)


OPERATIONS = (
    OperationRule(
        operation=Operation.PROVISIONING,
        source=Phase.PENDING,
        target=Phase.ARCHIVED,
        deadline_seconds=600,
        actions=(Action.WRITE_EMPTY_ARCHIVE,),
        complete_when="archive_key names this operation, and the archive is available",
        action=_provision,
        complete=lambda workspace: has_own_archive(workspace) and workspace.archive_ready,
    ),
    OperationRule(
        operation=Operation.RESTORING,
        source=Phase.ARCHIVED,
        target=Phase.STANDBY,
        deadline_seconds=3_600,
        actions=(Action.RESTORE_HOME,),
        complete_when="the volume exists, and restore_marker = archive_key",
        action=_restore,
        complete=lambda workspace: workspace.volume_ready and is_restored(workspace),
    ),
    OperationRule(
        operation=Operation.STARTING,
        source=Phase.STANDBY,
        target=Phase.RUNNING,
        deadline_seconds=300,
        actions=(Action.START_CONTAINER,),
        complete_when="the container and the volume exist",
        action=_start,
        complete=lambda workspace: workspace.container_ready and workspace.volume_ready,
    ),
    OperationRule(
        operation=Operation.STOPPING,
        source=Phase.RUNNING,
        target=Phase.STANDBY,
        deadline_seconds=300,
        actions=(Action.STOP_CONTAINER,),
        complete_when="nothing of the container is left",
        action=_stop,
        complete=lambda workspace: workspace.container_gone,
    ),
    OperationRule(
        operation=Operation.ARCHIVING,
        source=Phase.STANDBY,
        target=Phase.ARCHIVED,
        deadline_seconds=3_600,
        actions=(Action.STOP_CONTAINER, Action.ARCHIVE_HOME, Action.DELETE_VOLUME),
        complete_when="the volume is gone, archive_key names this operation, and the archive is available",
        action=_archive,
        complete=lambda workspace: (
            has_own_archive(workspace) and workspace.archive_ready and not workspace.volume_ready
        ),
    ),
    OperationRule(
        operation=Operation.DISCARDING,
        source=Phase.ARCHIVED,
        target=Phase.PENDING,
        deadline_seconds=300,
        actions=(Action.FORGET_ARCHIVE,),
        complete_when="archive_key is empty, and no archive is observed",
        action=_discard,
        complete=lambda workspace: workspace.archive_key is None and not workspace.archive_ready,
    ),
    OperationRule(
        operation=Operation.DELETING,
        source=None,
        target=Phase.DELETED,
        deadline_seconds=3_600,
        actions=(Action.STOP_CONTAINER, Action.DELETE_VOLUME, Action.FORGET_ARCHIVE),
        complete_when="container, volume and leftovers of restores are gone, and archive_key is empty",
        action=_delete,
        complete=lambda workspace: (
            workspace.archive_key is None
            and workspace.container_gone
            and not workspace.volume_ready
            and _is_cleaned_up(workspace)
        ),
    ),
)
RULES: Mapping[Operation, OperationRule] = {rule.operation: rule for rule in OPERATIONS}

UP: Mapping[Phase, Operation] = {
    Phase.PENDING: Operation.PROVISIONING,
    Phase.ARCHIVED: Operation.RESTORING,
    Phase.STANDBY: Operation.STARTING,
}
"""The operation that leads one level up."""

DOWN: Mapping[Phase, Operation] = {
    Phase.RUNNING: Operation.STOPPING,
    Phase.STANDBY: Operation.ARCHIVING,
    Phase.ARCHIVED: Operation.DISCARDING,
}
"""The operation that leads one level down."""

DELETABLE = (Phase.PENDING, Phase.ARCHIVED, Phase.ERROR)
"""Phases in which a workspace may be deleted, if no operation is under way (003 §5; WS-8)."""

MACHINE: StateMachine[Phase] = StateMachine(
    (
        Transition(None, Phase.PENDING, "create", "the API"),
        *(Transition(rule.source or rule.target, rule.target, rule.operation, "the reconciler") for rule in OPERATIONS),
        *(Transition(phase, Phase.DELETED, "delete", "the API") for phase in DELETABLE),
    ),
    terminal=frozenset({Phase.DELETED}),
)
"""The phases as drawn in the docs: DELETING, which has no source, starts and ends in DELETED."""

REQUESTABLE_STATES = tuple(state for state in DesiredState if state is not DesiredState.DELETED)
"""Desired states that a client may set. DELETED is set together with `deleted_at`, by DELETE."""

MONITOR_COLUMNS = ("conditions", "phase", "observed_at")
RECONCILER_COLUMNS = (
    "operation",
    "op_id",
    "op_started_at",
    "acted_at",
    "archive_key",
    "home_ctx",
    "error_info",
    "error_count",
    "start_count",
    "next_attempt_at",
    "tried_at",
    "settled_at",
    "cleaned_at",
    "lease_owner",
    "lease_until",
    "handed_at",
    "next_look_at",
)
API_COLUMNS = (
    "name",
    "desired_state",
    "desired_by",
    "deleted_at",
    "standby_ttl_seconds",
    "archive_ttl_seconds",
    "last_access_at",
    "idle_at",
)
"""The columns that each role writes (003 §3; WS-6). A test compares these lists with the grants in the database."""
