"""Look at a workspace until nothing more can be done at once, and see to it that somebody looks again (003 §2; WS-5).

Observing and reconciling take turns: a step that was taken is a hint to observe at once (the document publishes it in
Redis; here it is the next turn of the same call, or a message without delay). In between, a workspace has one delayed
message at most, which the row counts. A crash after that was counted and before it was sent loses the message: the
beat finds the workspace within half a minute.
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
from dpp.workspaces.control.message import MAX_DELAY_SECONDS, Look, Work, body_of
from dpp.workspaces.control.planner import LOOK_IN_OPERATION_SECONDS, LOOK_TO_CONVERGE_SECONDS, Kind, Step
from dpp.workspaces.control.reconcile import Outcome, Reconciled, reconcile
from dpp.workspaces.model import Workspace
from dpp.workspaces.ports import Provider
from dpp.workspaces.store import Writer

_LOG = logging.getLogger("dpp.workspaces.control.observe")

MAX_TURNS = 12
"""So many steps in one call at most: from nothing to RUNNING takes eight."""

HANDED_AGAIN_AFTER_SECONDS = 60
"""Long work that nobody has begun by then is handed over once more."""


def _now() -> datetime | None:
    return None


@dataclass(frozen=True, slots=True)
class ControlEffects:
    """What looking touches. `looks` carries looks and pages, `works` what takes long."""

    database: Database
    provider: Provider
    looks: Queue
    works: Queue
    clock: Clock = _now


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a look. `steps` that were taken; `workspace` None: there is none, or nothing is left of it.

    `outage`: who did not answer, to the look or to what was done.
    """

    workspace: Workspace | None
    steps: Sequence[Step]
    outage: str | None = None


def look(workspace_id: UUID, effects: ControlEffects, *, does_long: bool = False) -> Looked:
    """Observe and reconcile in turns, then plan the next look.

    Raises PostgresUnavailable, QueueUnavailable; where the provider doesn't answer, the next look asks it again.
    """
    taken: list[Step] = []
    unanswered: str | None = None
    try:
        for _ in range(MAX_TURNS):
            workspace = monitor.look(effects.database, effects.provider, workspace_id, effects.clock())
            if workspace is None or workspace.cleaned_at is not None:
                return Looked(None, taken)
            done = reconcile(
                effects.database, effects.provider, workspace, effects.clock, does_long=does_long
            )
            if done.outcome is not Outcome.MOVED:
                break
            taken.append(done.step)
            unanswered = done.outage or unanswered
    except PostgresUnavailable:
        raise
    except DependencyUnavailable as outage:
        _LOG.warning("the provider did not answer", extra={"dependency": outage.dependency})
        _send_next(workspace_id, effects, LOOK_TO_CONVERGE_SECONDS)
        return Looked(None, taken, outage.dependency)
    _follow(done, effects, does_long=does_long)
    return Looked(workspace, taken, unanswered)


def _follow(done: Reconciled, effects: ControlEffects, *, does_long: bool) -> None:
    """Have long work done, and the next look taken when it is due; what is at rest waits for the fleet's."""
    workspace_id = done.workspace.workspace_id
    if done.outcome is Outcome.LONG and lease.hand_over(
        effects.database, done.workspace, HANDED_AGAIN_AFTER_SECONDS, effects.clock()
    ):
        effects.works.send(body_of(Work(workspace_id)))
    if done.step.kind in {Kind.REST, Kind.BLOCKED}:
        return
    moves = done.outcome in {Outcome.MOVED, Outcome.OVERTAKEN, Outcome.LONG}
    seconds = LOOK_IN_OPERATION_SECONDS if moves else done.step.look_in_seconds
    _send_next(workspace_id, effects, 0 if does_long and moves else seconds)


def _send_next(workspace_id: UUID, effects: ControlEffects, seconds: int) -> None:
    with (
        effects.database.connection() as connection,
        store.writing(connection, Writer.RECONCILER),
    ):
        ours = store.plan_look(connection, workspace_id, seconds, effects.clock())
    if ours:
        effects.looks.send_later(body_of(Look(workspace_id)), min(seconds, MAX_DELAY_SECONDS))
