"""Explain a workspace's state: desired, observed, blocked by, next step; with the planner's own texts (WS-5)."""

from dataclasses import dataclass
from datetime import datetime

from dpp.workspaces.control.planner import Kind, Step, next_step
from dpp.workspaces.model import Condition, Workspace


@dataclass(frozen=True, slots=True)
class Explanation:
    """`blocked`: an operator has to act, and `next_step` says why. Ages in whole seconds."""

    desired: str
    observed: str
    observed_seconds_ago: int | None
    conditions: tuple[tuple[str, Condition, int], ...]
    under_way: str
    blocked: bool
    next_step: Step


def explain(workspace: Workspace, now: datetime) -> Explanation:
    """Explain the workspace, with the step that the planner would decide on now."""
    step = next_step(workspace, now)
    if workspace.lease_until is not None and workspace.lease_until > now:
        step = Step(Kind.WAIT, "A process is working on the operation.", workspace.operation)
    conditions = tuple(
        (name, one, _age_seconds(one.last_transition_time, now) or 0)
        for name, one in sorted(workspace.conditions.items())
    )
    return Explanation(
        desired=f"{workspace.desired_state}, requested by {workspace.desired_by}",
        observed=workspace.phase.value,
        observed_seconds_ago=_age_seconds(workspace.observed_at, now),
        conditions=conditions,
        under_way=_under_way(workspace, now),
        blocked=step.kind in {Kind.BLOCKED, Kind.LOSE},
        next_step=step,
    )


def _under_way(workspace: Workspace, now: datetime) -> str:
    if workspace.operation == "NONE":
        return "nothing"
    text = f"{workspace.operation} for {_age_seconds(workspace.op_started_at, now)} s"
    if workspace.home_ctx.last_action is not None:
        text += f", {workspace.home_ctx.last_action} done {_age_seconds(workspace.acted_at, now)} s ago"
    error = workspace.error_info
    return text if error is None else f"{text}; failed {error.retry_count} times, last: {error.reason}"


def _age_seconds(at: datetime | None, now: datetime) -> int | None:
    return None if at is None else int((now - at).total_seconds())
