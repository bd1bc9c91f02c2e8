"""The control loop: observe and reconcile a workspace until nothing more can be done now (003 §2; WS-5).

Observing and reconciling alternate: each step is followed by another observation (the document publishes a hint in
Redis; here it is the next iteration, or a message without delay). For later, a workspace has at most one delayed
message, which its row records. A crash between recording and sending loses the message; the next tick finds the
workspace within half a minute.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable
from dpp.workspaces import store
from dpp.workspaces.control import lease, monitor
from dpp.workspaces.control.act import Clock
from dpp.workspaces.control.message import MAX_DELAY_SECONDS, Observe, Work, body_of
from dpp.workspaces.control.planner import OBSERVE_IN_OPERATION_SECONDS, OBSERVE_TO_CONVERGE_SECONDS, Kind, Step
from dpp.workspaces.control.reconcile import Outcome, ReconcileResult, reconcile
from dpp.workspaces.model import Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.store import Writer

_LOG = logging.getLogger("dpp.workspaces.control.observe")

MAX_STEPS = 12
"""Maximum steps in one call; a new workspace needs eight to reach RUNNING."""

HAND_OVER_AGAIN_AFTER_SECONDS = 60
"""Long work that has not started after this time is handed over again."""


def _now() -> datetime | None:
    return None


@dataclass(frozen=True, slots=True)
class ControlEffects:
    """Connections and clients that the control loop uses."""

    database: Database
    provider: Provider
    observe_queue: Queue
    work_queue: Queue
    clock: Clock = _now


@dataclass(frozen=True, slots=True)
class ObserveReport:
    """Report of one call. `workspace`: None if it doesn't exist or is cleaned up. `steps`: the steps taken.

    `outage`: the dependency that did not answer an observation or an action.
    """

    workspace: Workspace | None
    steps: Sequence[Step]
    outage: str | None = None


def observe(workspace_id: UUID, effects: ControlEffects, *, does_long_work: bool = False) -> ObserveReport:
    """Observe and reconcile alternately, then plan the next observation.

    Raises PostgresUnavailable, QueueUnavailable. If the provider doesn't answer, the next observation retries.
    """
    taken: list[Step] = []
    outage_met: str | None = None
    try:
        for _ in range(MAX_STEPS):
            workspace = monitor.observe(effects.database, effects.provider, workspace_id, effects.clock())
            if workspace is None or workspace.cleaned_at is not None:
                return ObserveReport(None, taken)
            done = reconcile(
                effects.database, effects.provider, workspace, effects.clock, does_long_work=does_long_work
            )
            if done.outcome is not Outcome.MOVED:
                break
            taken.append(done.step)
            outage_met = done.outage or outage_met
    except PostgresUnavailable:
        raise
    except DependencyUnavailable as outage:
        _LOG.warning("the provider did not answer", extra={"dependency": outage.dependency})
        _send_next(workspace_id, effects, OBSERVE_TO_CONVERGE_SECONDS)
        return ObserveReport(None, taken, outage.dependency)
    _follow(done, effects, does_long_work=does_long_work)
    return ObserveReport(workspace, taken, outage_met)


def _follow(done: ReconcileResult, effects: ControlEffects, *, does_long_work: bool) -> None:
    """Hand over long work, and plan the next observation. A stable workspace is observed with the fleet."""
    workspace_id = done.workspace.workspace_id
    if done.outcome is Outcome.LONG and lease.hand_over(
        effects.database, done.workspace, HAND_OVER_AGAIN_AFTER_SECONDS, effects.clock()
    ):
        effects.work_queue.send(body_of(Work(workspace_id)))
    if done.step.kind in {Kind.REST, Kind.BLOCKED}:
        return
    moves = done.outcome in {Outcome.MOVED, Outcome.OVERTAKEN, Outcome.LONG}
    seconds = OBSERVE_IN_OPERATION_SECONDS if moves else done.step.observe_in_seconds
    _send_next(workspace_id, effects, 0 if does_long_work and moves else seconds)


def _send_next(workspace_id: UUID, effects: ControlEffects, seconds: int) -> None:
    with effects.database.connection() as connection, store.writing(connection, Writer.RECONCILER):
        is_planned = store.plan_observation(connection, workspace_id, seconds, effects.clock())
    if is_planned:
        effects.observe_queue.send_later(body_of(Observe(workspace_id)), min(seconds, MAX_DELAY_SECONDS))
