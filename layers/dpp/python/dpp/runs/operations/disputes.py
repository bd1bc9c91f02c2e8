"""Disputed runs (D3): an operator sees the evidence and decides.

A run is DISPUTED if the ledger's receipt differs from the intent on its row. No job touches it again. A decision makes
ledger and row agree; the run then ends by the same steps as any other.
"""

import logging
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from dpp.money.ledger import Ledger, NoReservation
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs import finalize, store
from dpp.runs.envelope import EnvelopeUnreadable, read_stored
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reconcile import valid_intent
from dpp.runs.machine import Status
from dpp.runs.model import Run, envelope_key

_LOG = logging.getLogger("dpp.runs.operations.disputes")


class NotDisputed(Exception):
    """There is no such run, or it is not disputed (any more)."""


class DecisionRefused(Exception):
    """The decision is impossible: a run that never started costs nothing, and no run costs more than it reserved."""


@dataclass(frozen=True, slots=True)
class DisputeEffects:
    """Connections and clients that a decision uses."""

    database: Database
    ledger: Ledger
    storage: ObjectStore


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disputed run and the evidence about its money; amounts in micros."""

    run: Run
    receipt: tuple[str, int] | None
    """The ledger's receipt: how the reservation was closed, and the charge."""
    is_reserved: bool
    """True if the ledger still holds the reservation."""
    envelope_cost_usd_micros: int | None
    """The cost in the stored envelope; None if there is no readable one."""


def list_disputes(effects: DisputeEffects, limit: int) -> list[Dispute]:
    """Up to `limit` disputed runs with their evidence. Raises DependencyUnavailable."""
    runs = effects.database.using(store.disputed, limit)
    return [_evidence(effects, run) for run in runs]


def decide(effects: DisputeEffects, run_id: UUID, charge_usd_micros: int, now: datetime | None = None) -> Run:
    """End a disputed run with this charge, refund the rest of its reservation, and return the ended run.

    A run that never started (QUEUED) can only be charged 0, which refunds it. Safe to repeat after a crash. Raises
    NotDisputed, DecisionRefused, DependencyUnavailable.
    """
    run = effects.database.using(store.find_by_id, run_id)
    if run is None or not run.is_disputed:
        raise NotDisputed(f"run {run_id} is not disputed")
    if charge_usd_micros > run.reservation_max_cost_usd_micros:
        raise DecisionRefused(f"run {run_id} can cost at most its {run.reservation_max_cost_usd_micros} micros")
    if run.status == Status.QUEUED and charge_usd_micros:
        raise DecisionRefused(f"run {run_id} never started, so it can only be refunded (charge 0)")
    intent = replace(valid_intent(effects.storage, run), charge_usd_micros=charge_usd_micros)
    if intent.detail == run.last_error_detail:  # the reason of the dispute is not for the client
        intent = replace(intent, detail=None)
    ends = FinalizeEffects(effects.database, effects.ledger, effects.storage)
    _LOG.warning("dispute decided", extra={"run_id": run.id, "tenant_id": run.tenant_id, "charge": charge_usd_micros})
    try:
        ended = finalize.resolve(ends, run, intent, now=now)
    except NoReservation:
        # Redis lost both reservation and receipt. Postgres counts the run as open, so a rebuild enters it again.
        effects.database.using(rebuild, effects.ledger, run.tenant_id, RebuildReason.OPERATOR)
        ended = finalize.resolve(ends, run, intent, now=now)
    if ended is None:
        raise NotDisputed(f"run {run_id} was decided by somebody else meanwhile")
    return ended


def _evidence(effects: DisputeEffects, run: Run) -> Dispute:
    (receipt,) = effects.ledger.receipts(run.tenant_id, [run.id])
    body = effects.storage.get(envelope_key(run))
    cost: int | None = None
    if body is not None:
        try:
            cost = read_stored(run, body).used_usd_micros
        except EnvelopeUnreadable:
            cost = None
    return Dispute(
        run=run,
        receipt=None if receipt is None else (receipt[0], int(receipt[1])),
        is_reserved=run.id in effects.ledger.open_reservations(run.tenant_id),
        envelope_cost_usd_micros=cost,
    )
