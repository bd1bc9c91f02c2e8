"""The switch of execution (TIX-1): whether runs are begun, at all and by pack, as operators' tickets decide.

A run is begun if neither the switch of all packs nor that of its own is off; a switch that nobody decided on is on.
While one is off:

- a submit is refused and gets its reservation back; the repetition of an accepted one is answered as ever.
- a run that waits is not started: its message is acknowledged and the run parked, as if it had never been sent (D5).
  Once enabled, reconcile sends it within its minute; after its hour the sweeper refunds it in full (RUN-21).
- what is PROCESSING goes on to its end, and so does every end that was claimed.

Submit and worker ask in the statement that begins (`insert_run`, `start_processing`), so that no look is stale when it
is acted on: once a decision stands, no statement sent after it begins a run. One under way at that moment counts as
before it.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dpp.packs.contract import PackType
from dpp.platform.db.postgres import Connection
from dpp.runs.store import QUERIES

_ALL_PACKS = "*"
_MAX_ACTOR, _MAX_REASON = 64, 500


class DecisionConflict(Exception):
    """This decision id stands for another decision of the same scope."""


class DecisionOutcome(StrEnum):
    """What became of a decision."""

    APPLIED = "APPLIED"
    """It stands, from now on."""
    REPEATED = "REPEATED"
    """It stood already."""
    SUPERSEDED = "SUPERSEDED"
    """A newer one of the same scope stands, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The decision that stands for one scope: a pack, or None for all. `actor` took it, `reason` says why."""

    scope: PackType | None
    enabled: bool
    decision_id: UUID
    actor: str
    reason: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a decision, and the switch of its scope as it stands now."""

    outcome: DecisionOutcome
    switch: Switch


def decide(
    connection: Connection,
    *,
    scope: PackType | None,
    enabled: bool,
    decision_id: UUID,
    actor: str,
    reason: str,
    decided_at: datetime,
) -> Decision:
    """Enable or disable execution of a pack, or with None of all; once for a `decision_id`, however often it is asked.

    Of a scope's decisions the one with the greatest `decided_at` stands, in whatever order they come; of two at one
    moment that with the greater id. So `decided_at` is the decision's own, the same at every repetition, and by the
    clock of Postgres (D1). The scopes are apart: to enable all packs enables none that is disabled by itself.

    One statement, which inside an open transaction counts once that is committed. Raises DecisionConflict, and
    ValueError for what the table takes not: an actor of 1–64 characters, a reason of 1–500, a time with its offset.
    """
    if not (1 <= len(actor) <= _MAX_ACTOR and 1 <= len(reason) <= _MAX_REASON):
        raise ValueError("a decision has an actor of 1 to 64 characters and a reason of 1 to 500")
    if decided_at.utcoffset() is None:
        raise ValueError("a decision's time has an offset")
    decided = Switch(scope, enabled, decision_id, actor, reason, decided_at)
    params = {
        "scope": scope or _ALL_PACKS,
        "enabled": enabled,
        "decision_id": decision_id,
        "actor": actor,
        "reason": reason,
        "decided_at": decided_at,
    }
    row = connection.execute(QUERIES["decide_execution"], params).fetchone()
    if row is not None:
        return Decision(DecisionOutcome.APPLIED, _switch(row))
    # No row is ever deleted: whoever kept this decision off stands there still, or one newer still.
    [standing] = [switch for switch in switches(connection) if switch.scope == scope]
    if standing.decision_id != decision_id:
        return Decision(DecisionOutcome.SUPERSEDED, standing)
    if (standing.enabled, standing.decided_at) != (decided.enabled, decided.decided_at):
        raise DecisionConflict(f"decision {decision_id} stands with another content")
    return Decision(DecisionOutcome.REPEATED, standing)


def switches(connection: Connection) -> tuple[Switch, ...]:
    """The decision that stands for each scope that was ever decided on, that of all packs first."""
    return tuple(_switch(row) for row in connection.execute(QUERIES["execution_switches"]).fetchall())


def _switch(row: tuple[Any, ...]) -> Switch:
    scope, *rest = row
    return Switch(None if scope == _ALL_PACKS else PackType(scope), *rest)
