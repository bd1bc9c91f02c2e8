"""The execution switch (TIX-1): operators' tickets enable and disable runs, of all packs or of one.

A run starts if neither the switch of all packs nor that of its pack is off; a switch without a decision is on. While a
switch is off:

- A submit is refused, and its reservation is refunded. The repetition of an accepted submit gets its receipt as ever.
- A waiting run is not started: its message is acknowledged and the run parked, as if it had never been sent (D5). Once
  enabled, reconcile sends it within a minute; after its hour the sweeper refunds it in full (RUN-21).
- A PROCESSING run goes on to its end, and so does every claim.

Submit and worker test the switch in the statement that starts the run (`insert_run`, `start_processing`), so they never
act on a stale value: once a decision is committed, no later statement starts a run. A statement that is under way at
that moment counts as earlier.
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
    """This decision id belongs to another decision of the same scope."""


class DecisionOutcome(StrEnum):
    """The effect of a decision."""

    APPLIED = "APPLIED"
    """It applies from now on."""
    REPEATED = "REPEATED"
    """It applied already."""
    SUPERSEDED = "SUPERSEDED"
    """A newer decision of the same scope applies; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The decision that applies to one scope: a pack, or None for all packs. `actor` took it, for `reason`."""

    scope: PackType | None
    enabled: bool
    decision_id: UUID
    actor: str
    reason: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a decision, and the switch of its scope after it."""

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
    """Enable or disable execution of a pack, or of all with None; once per `decision_id`.

    Of a scope's decisions the one with the greatest `decided_at` applies, in whatever order they arrive; of two at the
    same time, the one with the greater id. So `decided_at` must be the same at every repetition, and from Postgres's
    clock (D1). Scopes are independent: enabling all packs enables none that is disabled by itself.

    One statement; inside an open transaction it applies when that is committed. Raises DecisionConflict, and ValueError
    for values that the table's checks reject: `actor` must have 1–64 characters, `reason` 1–500, the time an offset.
    """
    if not (1 <= len(actor) <= _MAX_ACTOR and 1 <= len(reason) <= _MAX_REASON):
        raise ValueError("actor must have 1 to 64 characters, and reason 1 to 500")
    if decided_at.utcoffset() is None:
        raise ValueError("decided_at must have an offset")
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
    # No row is ever deleted: the decision that prevented this one is still there, or a newer one.
    [current] = [switch for switch in switches(connection) if switch.scope == scope]
    if current.decision_id != decision_id:
        return Decision(DecisionOutcome.SUPERSEDED, current)
    if (current.enabled, current.decided_at) != (enabled, decided_at):
        raise DecisionConflict(f"decision {decision_id} exists with another content")
    return Decision(DecisionOutcome.REPEATED, current)


def switches(connection: Connection) -> tuple[Switch, ...]:
    """The decision that applies to each scope that was ever decided on, first that of all packs."""
    return tuple(_switch(row) for row in connection.execute(QUERIES["execution_switches"]).fetchall())


def _switch(row: tuple[Any, ...]) -> Switch:
    scope, *rest = row
    return Switch(None if scope == _ALL_PACKS else PackType(scope), *rest)
