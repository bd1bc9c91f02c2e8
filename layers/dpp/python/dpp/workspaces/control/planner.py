"""What comes next for a workspace: one step or none, from its row and Postgres's clock alone (003 §2, §4, §5, §10).

The same function decides for the reconciler and explains to a person, so that the two never differ. It reads no
provider: what is really there stands in the conditions.
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
from dpp.workspaces.model import (
    HEALTHY,
    LEVELS,
    VOLUME_READY,
    Operation,
    Phase,
    Workspace,
)

LOOK_IN_OPERATION_SECONDS = 2
LOOK_TO_CONVERGE_SECONDS = 5
LOOK_WHEN_STABLE_SECONDS = 30
"""When to look again (003 §2; WS-5)."""

SETTLE_SECONDS = 15
"""How long what was done may take to be seen before it is done again."""

LOSS_GRACE_SECONDS = 10
"""How long a volume must be away before its home is called lost: a single look may be wrong."""

DATA_LOST = "DataLost"
TIMEOUT = "OperationTimeout"
HOME_IN_USE = "HomeInUse"
"""Whoever started it came late, or is none of ours. The volume stays, whether the container runs on or ends."""


class Kind(StrEnum):
    """What sort of step."""

    REST = "REST"
    """All is as it was asked for."""
    WAIT = "WAIT"
    """Something is to come that nobody here can hasten."""
    BLOCKED = "BLOCKED"
    """A person has to do something."""
    BEGIN = "BEGIN"
    """An operation begins."""
    ACT = "ACT"
    """Something is done to the world."""
    COMPLETE = "COMPLETE"
    """The operation is complete: it was seen to be."""
    FAIL = "FAIL"
    """The operation failed once more; terminal, for good."""
    LOSE = "LOSE"
    """The home is gone, and nothing may be put in its place unasked."""


@dataclass(frozen=True, slots=True)
class Step:
    """What comes next, and why in words. `reason` of a failure; `look_in_seconds`: when to look again."""

    kind: Kind
    why: str
    operation: Operation = Operation.NONE
    action: Action | None = None
    reason: str = ""
    is_terminal: bool = False
    look_in_seconds: int = LOOK_TO_CONVERGE_SECONDS


def next_step(workspace: Workspace, now: datetime) -> Step:
    """The step, where no process holds the workspace's operation."""
    if workspace.cleaned_at is not None:
        return Step(Kind.REST, "It is deleted, and nothing of it is left.")
    if workspace.operation is not Operation.NONE:
        return _under_way(workspace, RULES[workspace.operation], now)
    return _at_rest(workspace, now) if workspace.deleted_at is None else _to_be_removed(workspace, now)


def _to_be_removed(workspace: Workspace, now: datetime) -> Step:
    """What is deleted is removed, however often that fails: nobody would look at its error."""
    error = workspace.error_info
    if error is not None and now - error.failed_at < timedelta(seconds=MAX_BACKOFF_SECONDS):
        why = f"Removing it failed, {error.reason}; it is tried again after five minutes."
        return Step(Kind.WAIT, why, look_in_seconds=LOOK_WHEN_STABLE_SECONDS)
    return Step(Kind.BEGIN, "It is deleted: what is left of it is removed.", Operation.DELETING)


def _at_rest(workspace: Workspace, now: datetime) -> Step:
    """No operation is under way: begin the next one, if any may begin."""
    error = workspace.error_info
    if error is not None and error.is_terminal:
        return Step(Kind.BLOCKED, f"{error.reason}: {error.message}")
    if not is_fresh(workspace):
        looked = "yet" if workspace.observed_at is None else "since its last operation"
        return Step(Kind.WAIT, f"It has not been looked at {looked}.")
    if workspace.phase is Phase.ERROR:
        return Step(Kind.BLOCKED, _told_of_health(workspace))
    if (lost := _lost(workspace, now)) is not None:
        return lost
    return _towards(workspace, now)


def _towards(workspace: Workspace, now: datetime) -> Step:
    phase, wanted = workspace.phase, workspace.desired_state
    if phase is Phase.STANDBY and workspace.home_ctx.restore_marker is None:
        why = "A volume stands whose home was never proved: it is restored, or found to be."
        return Step(Kind.BEGIN, why, Operation.RESTORING)
    if LEVELS[phase] == LEVELS[wanted]:
        return Step(Kind.REST, f"It is {phase}, as was asked for.", look_in_seconds=LOOK_WHEN_STABLE_SECONDS)
    up = LEVELS[phase] < LEVELS[wanted]
    operation = UP[phase] if up else DOWN[phase]
    if operation is Operation.STARTING and (wait := _restart_wait(workspace, now)) > 0:
        why = f"The container ended {workspace.start_count} times soon after its start; it waits {wait} s."
        return Step(Kind.WAIT, why, look_in_seconds=_within(wait))
    target = RULES[operation].target
    return Step(Kind.BEGIN, f"It is {phase} and is to be {wanted}: the next step is {target}.", operation)


def _under_way(workspace: Workspace, rule: OperationRule, now: datetime) -> Step:
    """An operation is under way: complete it, give up, wait, or do what is to be done."""
    fresh = is_fresh(workspace)
    if fresh and rule.complete(workspace):
        return Step(Kind.COMPLETE, f"Seen: {rule.complete_when}.", rule.operation)
    if rule.operation is Operation.ARCHIVING and workspace.container_ready and has_own_archive(workspace):
        why = "A container runs since the home was archived, and what it writes is in no archive."
        return Step(Kind.FAIL, why, rule.operation, reason=HOME_IN_USE, is_terminal=True)
    if rule.operation is Operation.STARTING and (lost := _lost(workspace, now)) is not None:
        return lost
    error = workspace.error_info
    if error is not None and is_exhausted(error.retry_count):
        if not fresh:  # what failed may have been done: one look decides
            return _waiting("It failed too often; one more look tells whether it was done all the same.")
        return Step(Kind.FAIL, error.message, rule.operation, reason=error.reason, is_terminal=True)
    return _patience(workspace, rule, now) or _next_action(workspace, rule, now)


def _patience(workspace: Workspace, rule: OperationRule, now: datetime) -> Step | None:
    """Whether an attempt has lasted too long; one that can't go on, since the workspace is in ERROR, lasts as long.

    An attempt is late by what was tried, not while nobody was at work, nor while the provider is to be asked again. In
    ERROR nothing is tried: there the time counts from the ERROR on, or the operation would never end, and with it no
    person could recover or delete the workspace.
    """
    deadline = timedelta(seconds=rule.deadline_seconds)
    health = workspace.conditions.get(HEALTHY)
    is_error = workspace.phase is Phase.ERROR and workspace.deleted_at is None
    held_up = is_error and rule.operation is not Operation.STOPPING  # which is right whatever is wrong
    if held_up and health is not None:
        told = _told_of_health(workspace)
        if now - health.last_transition_time <= deadline:
            return _waiting(told)
        return Step(Kind.FAIL, told, rule.operation, reason=health.reason, is_terminal=True)
    if workspace.tried_at is not None and now - workspace.tried_at > deadline:
        why = f"Not seen within {rule.deadline_seconds} s: {rule.complete_when}."
        return Step(Kind.FAIL, why, rule.operation, reason=TIMEOUT)
    return None


def _next_action(workspace: Workspace, rule: OperationRule, now: datetime) -> Step:
    if workspace.next_attempt_at is not None and workspace.next_attempt_at > now:
        wait = (workspace.next_attempt_at - now).total_seconds()
        why = f"The provider did not answer {workspace.error_count} times in a row; it is asked again then."
        return _waiting(why, _within(wait))
    action = rule.action(workspace)
    if action is None:
        return _waiting(f"To be seen: {rule.complete_when}.")
    if _settles(workspace, action, now):
        return _waiting(f"{action} was done; to be seen: {rule.complete_when}.")
    return Step(Kind.ACT, f"{rule.operation}: {action}.", rule.operation, action)


def _settles(workspace: Workspace, action: Action, now: datetime) -> bool:
    """True while what was just done may still become visible. What failed, and another action, need not wait."""
    if workspace.acted_at is None or workspace.home_ctx.last_action != action:
        return False
    lately = now - workspace.acted_at < timedelta(seconds=SETTLE_SECONDS)
    return not is_fresh(workspace) or (lately and was_done(workspace, action))


def _lost(workspace: Workspace, now: datetime) -> Step | None:
    """Whether the volume that holds the home is away (a marker says that there was one)."""
    condition = workspace.conditions.get(VOLUME_READY)
    if workspace.home_ctx.restore_marker is None or condition is None or condition.status:
        return None
    grace = timedelta(seconds=LOSS_GRACE_SECONDS)
    if not is_fresh(workspace) or now - condition.last_transition_time < grace:
        return _waiting("The volume that holds the home is not seen.")
    why = "The volume that held the home is gone; the last archive is older than what was on it."
    return Step(Kind.LOSE, why, workspace.operation, reason=DATA_LOST, is_terminal=True)


def _restart_wait(workspace: Workspace, now: datetime) -> int:
    """Seconds until a container that keeps ending is started anew."""
    if workspace.settled_at is None or workspace.start_count == 0:
        return 0
    since = (now - workspace.settled_at).total_seconds()
    if since >= RESTART_WINDOW_SECONDS:
        return 0
    return max(0, round(backoff_seconds(workspace.start_count) - since))


def _told_of_health(workspace: Workspace) -> str:
    condition = workspace.conditions.get(HEALTHY)
    return "It is in ERROR." if condition is None else f"{condition.reason}: {condition.message}"


def _waiting(why: str, look_in_seconds: int = LOOK_IN_OPERATION_SECONDS) -> Step:
    return Step(Kind.WAIT, why, look_in_seconds=look_in_seconds)


def _within(seconds: float) -> int:
    """When to look again if nothing can happen for so long: not later than a stable workspace would be."""
    return int(min(max(seconds, LOOK_IN_OPERATION_SECONDS), LOOK_WHEN_STABLE_SECONDS))
