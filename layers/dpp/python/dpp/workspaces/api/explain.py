"""A workspace in words: what is wanted, what was seen, what blocks, what comes next. The planner's own words (WS-5)."""

from dataclasses import dataclass
from datetime import datetime

from dpp.workspaces.control.planner import Kind, Step, next_step
from dpp.workspaces.model import Condition, Workspace


@dataclass(frozen=True, slots=True)
class Explained:
    """`blocked`: a person has to do something, `next_step` says what is wrong. Ages in whole seconds."""

    wanted: str
    observed: str
    observed_seconds_ago: int | None
    conditions: tuple[tuple[str, Condition, int], ...]
    under_way: str
    blocked: bool
    next_step: Step


def explain(workspace: Workspace, now: datetime) -> Explained:
    """What would be decided about it now."""
    step = next_step(workspace, now)
    if workspace.lease_until is not None and workspace.lease_until > now:
        step = Step(Kind.WAIT, "It is being worked on.", workspace.operation)
    conditions = tuple(
        (name, one, _ago(one.last_transition_time, now) or 0)
        for name, one in sorted(workspace.conditions.items())
    )
    return Explained(
        wanted=f"{workspace.desired_state}, asked for by {workspace.desired_by}",
        observed=workspace.phase.value,
        observed_seconds_ago=_ago(workspace.observed_at, now),
        conditions=conditions,
        under_way=_under_way(workspace, now),
        blocked=step.kind in {Kind.BLOCKED, Kind.LOSE},
        next_step=step,
    )


def _under_way(workspace: Workspace, now: datetime) -> str:
    if workspace.operation == "NONE":
        return "nothing"
    told = f"{workspace.operation} for {_ago(workspace.op_started_at, now)} s"
    if workspace.home_ctx.last_action is not None:
        told += f", {workspace.home_ctx.last_action} done {_ago(workspace.acted_at, now)} s ago"
    error = workspace.error_info
    return told if error is None else f"{told}; failed {error.retry_count} times, last: {error.reason}"


def _ago(at: datetime | None, now: datetime) -> int | None:
    return None if at is None else int((now - at).total_seconds())
