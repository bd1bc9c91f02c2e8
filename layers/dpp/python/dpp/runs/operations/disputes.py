"""What an operator does with a disputed run (D3): see all the evidence, decide, and have it carried out.

A run is DISPUTED where the ledger's receipt differs from the intent on its row. No job touches it again. A decision
makes the ledger and the row agree, and the run then ends by the same steps as any other.
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
from dpp.runs.jobs.reconcile import intent_that_stands
from dpp.runs.machine import Status
from dpp.runs.model import Run, envelope_key

_LOG = logging.getLogger("dpp.runs.operations.disputes")


class NotDisputed(Exception):
    """There is no such run, or it is not disputed (any more)."""


class DecisionRefused(Exception):
    """What was decided can't be: a run that never ran costs nothing, and no run costs more than it reserved."""


@dataclass(frozen=True, slots=True)
class DisputeEffects:
    """What a decision touches."""

    database: Database
    ledger: Ledger
    storage: ObjectStore


@dataclass(frozen=True, slots=True)
class Dispute:
    """A disputed run and everything that says something about its money; amounts in micros."""

    run: Run
    receipt: tuple[str, int] | None
    """How the ledger says that the reservation was closed, and what was charged."""
    is_reserved: bool
    """Whether the ledger still holds the reservation."""
    envelope_cost_usd_micros: int | None
    """The cost in the stored envelope, None where there is none that can be read."""


def look(effects: DisputeEffects, limit: int) -> list[Dispute]:
    """Up to `limit` disputed runs, each with its evidence. Raises DependencyUnavailable."""
    with effects.database.connection() as connection:
        runs = store.disputed(connection, limit)
    return [_evidence(effects, run) for run in runs]


def decide(effects: DisputeEffects, run_id: UUID, charge_usd_micros: int, now: datetime | None = None) -> Run:
    """End a disputed run with this charge, the rest of its reservation refunded; the run as it then stands.

    A run that never ran (QUEUED) can only be charged nothing, which refunds it. Safe to repeat after a crash. Raises
    NotDisputed, DecisionRefused, DependencyUnavailable.
    """
    with effects.database.connection() as connection:
        run = store.find_by_id(connection, run_id)
    if run is None or not run.is_disputed:
        raise NotDisputed(f"run {run_id} is not disputed")
    if charge_usd_micros > run.reservation_max_cost_usd_micros:
        raise DecisionRefused(f"the run reserved {run.reservation_max_cost_usd_micros} micros, not more")
    if run.status == Status.QUEUED and charge_usd_micros:
        raise DecisionRefused("the run never ran, so it can only be refunded (charge 0)")
    intent = intent_that_stands(effects.storage, run)
    if intent.detail == run.last_error_detail:  # why it was disputed is nothing that the client need read
        intent = replace(intent, detail=None)
    intent = replace(intent, charge_usd_micros=charge_usd_micros)
    ends = FinalizeEffects(effects.database, effects.ledger, effects.storage)
    _LOG.warning(
        "dispute decided", extra={"run_id": run.id, "tenant_id": run.tenant_id, "charge": charge_usd_micros}
    )
    try:
        ended = finalize.resolve(ends, run, intent, now=now)
    except NoReservation:
        # Redis lost both reservation and receipt. Postgres counts the run as open, so a rebuild enters it anew.
        with effects.database.connection() as connection:
            rebuild(connection, effects.ledger, run.tenant_id, RebuildReason.OPERATOR)
        ended = finalize.resolve(ends, run, intent, now=now)
    if ended is None:
        raise NotDisputed(f"run {run_id} was decided by another meanwhile")
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
