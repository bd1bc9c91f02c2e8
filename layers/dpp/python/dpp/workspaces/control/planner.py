"""Decide a workspace's next step from its row and Postgres's clock alone (003 §2, §4, §5, §10).

The reconciler and `explain` use the same function, so that they never differ. The planner asks no provider: the
conditions in the row hold what exists.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dpp.workspaces.control.retry_policy import (
    MAX_BACKOFF_SECONDS,
    RESTART_WINDOW_SECONDS,
    backoff_seconds,
    is_exhausted,
)
from dpp.workspaces.machine import DOWN, RULES, UP, Action, OperationRule, has_own_archive, is_fresh, was_done
from dpp.workspaces.model import HEALTHY, LEVELS, VOLUME_READY, Operation, Phase, Workspace

OBSERVE_IN_OPERATION_SECONDS = 2
OBSERVE_TO_CONVERGE_SECONDS = 5
OBSERVE_WHEN_STABLE_SECONDS = 30
"""Seconds until the next observation (003 §2; WS-5)."""

SETTLE_SECONDS = 15
"""The time for the effect of an action to become visible, before the action is repeated."""

LOSS_GRACE_SECONDS = 10
"""The time a volume must be missing before its home counts as lost: a single observation may be wrong."""

DATA_LOST = "DataLost"
TIMEOUT = "OperationTimeout"
HOME_IN_USE = "HomeInUse"
"""A container runs after the home was archived, started by a delayed or a foreign process. The volume is kept."""


class Kind(StrEnum):
    """The kind of a step."""

    REST = "REST"
    """The workspace is in its desired state."""
    WAIT = "WAIT"
    """Wait for an observation, or for a time."""
    BLOCKED = "BLOCKED"
    """An operator has to act."""
    BEGIN = "BEGIN"
    """Begin an operation."""
    ACT = "ACT"
    """Perform an action."""
    COMPLETE = "COMPLETE"
    """End the operation: it was observed to be complete."""
    FAIL = "FAIL"
    """Record a failure of the operation."""
    LOSE = "LOSE"
    """Declare the home lost. Only an operator may replace it."""


@dataclass(frozen=True, slots=True)
class Step:
    """The next step, and `why` as text. `reason`: of a failure. `observe_in_seconds`: until the next observation."""

    kind: Kind
    why: str
    operation: Operation = Operation.NONE
    action: Action | None = None
    reason: str = ""
    is_terminal: bool = False
    observe_in_seconds: int = OBSERVE_TO_CONVERGE_SECONDS


def next_step(workspace: Workspace, now: datetime) -> Step:
    """The next step, if no process holds a lease on the operation."""
    if workspace.cleaned_at is not None:
        return Step(Kind.REST, "The workspace is deleted, and nothing of it is left.")
    if workspace.operation is not Operation.NONE:
        return _under_way(workspace, RULES[workspace.operation], now)
    return _at_rest(workspace, now) if workspace.deleted_at is None else _to_be_cleaned_up(workspace, now)


def _to_be_cleaned_up(workspace: Workspace, now: datetime) -> Step:
    """A deleted workspace is cleaned up, however often that fails: its error would go unnoticed."""
    error = workspace.error_info
    if error is not None and now - error.failed_at < timedelta(seconds=MAX_BACKOFF_SECONDS):
        why = f"The cleanup failed with {error.reason}; it is retried after five minutes."
        return Step(Kind.WAIT, why, observe_in_seconds=OBSERVE_WHEN_STABLE_SECONDS)
    return Step(Kind.BEGIN, "The workspace is deleted: clean up what is left of it.", Operation.DELETING)


def _at_rest(workspace: Workspace, now: datetime) -> Step:
    """No operation is under way: begin the next one, if one may begin."""
    error = workspace.error_info
    if error is not None and error.is_terminal:
        return Step(Kind.BLOCKED, f"{error.reason}: {error.message}")
    if not is_fresh(workspace):
        since = "yet" if workspace.observed_at is None else "since its last operation"
        return Step(Kind.WAIT, f"The workspace has not been observed {since}.")
    if workspace.phase is Phase.ERROR:
        return Step(Kind.BLOCKED, _health_text(workspace))
    if (lost := _lost(workspace, now)) is not None:
        return lost
    return _towards_desired_state(workspace, now)


def _towards_desired_state(workspace: Workspace, now: datetime) -> Step:
    phase, desired = workspace.phase, workspace.desired_state
    if phase is Phase.STANDBY and workspace.home_ctx.restore_marker is None:
        why = "A volume exists whose home is not proved: restore it, or find that it was restored."
        return Step(Kind.BEGIN, why, Operation.RESTORING)
    if LEVELS[phase] == LEVELS[desired]:
        return Step(Kind.REST, f"The workspace is {phase}, as desired.", observe_in_seconds=OBSERVE_WHEN_STABLE_SECONDS)
    up = LEVELS[phase] < LEVELS[desired]
    operation = UP[phase] if up else DOWN[phase]
    if operation is Operation.STARTING and (wait := _restart_wait(workspace, now)) > 0:
        why = f"The container ended soon after its start {workspace.start_count} times; the next start is in {wait} s."
        return Step(Kind.WAIT, why, observe_in_seconds=_within(wait))
    target = RULES[operation].target
    return Step(
        Kind.BEGIN, f"The workspace is {phase}, and {desired} is desired: the next phase is {target}.", operation
    )


def _under_way(workspace: Workspace, rule: OperationRule, now: datetime) -> Step:
    """An operation is under way: complete it, give up, wait, or perform its next action."""
    fresh = is_fresh(workspace)
    if fresh and rule.complete(workspace):
        return Step(Kind.COMPLETE, f"Observed: {rule.complete_when}.", rule.operation)
    if rule.operation is Operation.ARCHIVING and workspace.container_ready and has_own_archive(workspace):
        why = "A container was started after the home was archived; no archive has what it writes."
        return Step(Kind.FAIL, why, rule.operation, reason=HOME_IN_USE, is_terminal=True)
    if rule.operation is Operation.STARTING and (lost := _lost(workspace, now)) is not None:
        return lost
    error = workspace.error_info
    if error is not None and is_exhausted(error.retry_count):
        if not fresh:  # the failed action may have taken effect: one more observation decides
            return _waiting("The operation failed too often; one more observation shows if it took effect.")
        return Step(Kind.FAIL, error.message, rule.operation, reason=error.reason, is_terminal=True)
    return _overdue(workspace, rule, now) or _next_action(workspace, rule, now)


def _overdue(workspace: Workspace, rule: OperationRule, now: datetime) -> Step | None:
    """The step if an attempt exceeds its deadline, or can't continue because the workspace is in ERROR; else None.

    The deadline counts from the first try of the attempt: time in which no process ran, or in which a retry after an
    outage was pending, does not count. In ERROR nothing is tried, and the deadline counts from the start of the ERROR:
    otherwise the operation would never end, and the workspace could be neither recovered nor deleted.
    """
    deadline = timedelta(seconds=rule.deadline_seconds)
    health = workspace.conditions.get(HEALTHY)
    is_error = workspace.phase is Phase.ERROR and workspace.deleted_at is None
    held_up = is_error and rule.operation is not Operation.STOPPING  # stopping is right in any ERROR
    if held_up and health is not None:
        why = _health_text(workspace)
        if now - health.last_transition_time <= deadline:
            return _waiting(why)
        return Step(Kind.FAIL, why, rule.operation, reason=health.reason, is_terminal=True)
    if workspace.tried_at is not None and now - workspace.tried_at > deadline:
        why = f"Not observed within {rule.deadline_seconds} s: {rule.complete_when}."
        return Step(Kind.FAIL, why, rule.operation, reason=TIMEOUT)
    return None


def _next_action(workspace: Workspace, rule: OperationRule, now: datetime) -> Step:
    if workspace.next_attempt_at is not None and workspace.next_attempt_at > now:
        wait = (workspace.next_attempt_at - now).total_seconds()
        why = f"The provider did not answer {workspace.error_count} times in a row; the next try is in {round(wait)} s."
        return _waiting(why, _within(wait))
    action = rule.action(workspace)
    if action is None:
        return _waiting(f"Waiting to observe: {rule.complete_when}.")
    if _may_become_visible(workspace, action, now):
        return _waiting(f"{action} was done; waiting to observe: {rule.complete_when}.")
    return Step(Kind.ACT, f"{rule.operation}: {action}.", rule.operation, action)


def _may_become_visible(workspace: Workspace, action: Action, now: datetime) -> bool:
    """True while the effect of the last action may still become visible, unless it failed."""
    if workspace.acted_at is None or workspace.home_ctx.last_action != action:
        return False
    is_recent = now - workspace.acted_at < timedelta(seconds=SETTLE_SECONDS)
    return not is_fresh(workspace) or (is_recent and was_done(workspace, action))


def _lost(workspace: Workspace, now: datetime) -> Step | None:
    """The step if the volume that holds the home is missing, else None. A restore marker shows that there was one."""
    condition = workspace.conditions.get(VOLUME_READY)
    if workspace.home_ctx.restore_marker is None or condition is None or condition.status:
        return None
    grace = timedelta(seconds=LOSS_GRACE_SECONDS)
    if not is_fresh(workspace) or now - condition.last_transition_time < grace:
        return _waiting("The volume that holds the home is missing.")
    why = "The volume that held the home is gone, and the last archive is older than its content."
    return Step(Kind.LOSE, why, workspace.operation, reason=DATA_LOST, is_terminal=True)


def _restart_wait(workspace: Workspace, now: datetime) -> int:
    """Seconds until a container that keeps ending is started again."""
    if workspace.settled_at is None or workspace.start_count == 0:
        return 0
    since = (now - workspace.settled_at).total_seconds()
    if since >= RESTART_WINDOW_SECONDS:
        return 0
    return max(0, round(backoff_seconds(workspace.start_count) - since))


def _health_text(workspace: Workspace) -> str:
    condition = workspace.conditions.get(HEALTHY)
    return "The workspace is in ERROR." if condition is None else f"{condition.reason}: {condition.message}"


def _waiting(why: str, observe_in_seconds: int = OBSERVE_IN_OPERATION_SECONDS) -> Step:
    return Step(Kind.WAIT, why, observe_in_seconds=observe_in_seconds)


def _within(seconds: float) -> int:
    """Seconds until the next observation if nothing can happen for so long; at most those of a stable workspace."""
    return int(min(max(seconds, OBSERVE_IN_OPERATION_SECONDS), OBSERVE_WHEN_STABLE_SECONDS))
