"""Work on a run (RUN-16 … RUN-19): lease it, run its pack, end it through the two-stage finalize.

What picks the work up after a crash: before the lease, the message comes again; under the lease, the reaper
once the lease has run out (RUN-20); after the claim, reconcile (RUN-22). A run whose execution is disabled is parked
before any of it, and reconcile brings it back (TIX-1, D5).
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Any, Protocol

from dpp.money.fees import charge_within
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.objects import ObjectRefusedError, signed_urls
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.ids import new_id
from dpp.platform.retry import PAUSES_SECONDS, with_retries
from dpp.runs import envelope, finalize, lease, store
from dpp.runs.endings import Ending, ending_of
from dpp.runs.lease import Heartbeat, LeaseEffects
from dpp.runs.machine import MoneyState, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import Intent, ResultPointer, Run, envelope_key
from dpp.runs.store import Guard

_LOG = logging.getLogger("dpp.runs.execute")
_SHOWN_SCORE = Decimal("0.0001")


class Packs(Protocol):
    """Runs packs; `dpp.packs.process.PackProcess` does, each in a process that can be killed (D6)."""

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """The pack's answer, within its timebox; `cancelled` ends it at once."""

    def prestart(self) -> None:
        """Get ready for the next run."""


@dataclass(frozen=True, slots=True)
class WorkEffects:
    """What the worker touches. `new_database` opens another connection, for the heartbeat's thread."""

    database: Database
    new_database: Callable[[], Database]
    ledger: Ledger
    queue: Queue
    storage: ObjectStore
    packs: Packs
    pauses_seconds: Sequence[float] = PAUSES_SECONDS
    heartbeat_interval_seconds: float = lease.HEARTBEAT_INTERVAL_SECONDS


class WorkOutcome(StrEnum):
    """What became of a message; each of them is acknowledged."""

    SKIPPED = "SKIPPED"
    PARKED = "PARKED"
    LEASE_LOST = "LEASE_LOST"
    CLAIM_LOST = "CLAIM_LOST"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class Worked:
    """What became of a message: how long it waited before its run was leased, and how the run ended, if it did."""

    outcome: WorkOutcome
    waited_seconds: float | None = None
    ending: Ending | None = None


def execute(message: RunMessage, receipt_handle: str, effects: WorkEffects) -> Worked:
    """Work on one message. Raises DependencyUnavailable where the message should come again."""
    leased = _lease(message, effects)
    if isinstance(leased, WorkOutcome):
        return Worked(leased)
    run, inputs = leased
    # Two clocks, the sender's and Postgres's: only for measuring, nothing is decided by it (D1).
    waited_seconds = max(0, (run.updated_at - message.enqueued_at).total_seconds())
    lease.take_in_redis(effects.ledger, run)
    beats = LeaseEffects(effects.new_database(), effects.ledger, effects.queue)
    with Heartbeat(beats, run, receipt_handle, effects.heartbeat_interval_seconds) as heartbeat:
        result = _result(run, inputs, effects, heartbeat.lost)
        effects.packs.prestart()
    if heartbeat.lost.is_set():
        return Worked(WorkOutcome.LEASE_LOST, waited_seconds)
    ended = _finish(run, result, effects)
    lease.release_in_redis(effects.ledger, run)
    if ended is None:
        return Worked(WorkOutcome.CLAIM_LOST, waited_seconds)
    return Worked(WorkOutcome.ENDED, waited_seconds, ending_of(ended))


def _lease(message: RunMessage, effects: WorkEffects) -> tuple[Run, dict[str, Any]] | WorkOutcome:
    """The run with a fresh lease, and its inputs; else what became of the message, which is acknowledged.

    SKIPPED where there is nothing to do (RUN-16), PARKED where execution is disabled (TIX-1).

    Tried again with the same token, so that a lease whose reply was lost is found again; and the inputs are read before
    it. A client would else pay the fee of a run that nobody worked on, for a moment's fault of ours.
    """
    token = str(new_id())

    def take() -> tuple[Run, dict[str, Any]] | WorkOutcome:
        with effects.database.connection() as connection:
            found = store.find_with_inputs(connection, message.tenant_id, message.run_id)
            run, inputs = found or (None, None)
            if run is not None and run.status == Status.QUEUED:
                leased = store.start_processing(connection, run, token)
                if leased is None and (parked := store.park(connection, run)) is not None:
                    _LOG.info("run parked", extra={"run_id": parked.id, "tenant_id": parked.tenant_id})
                    return WorkOutcome.PARKED
                run = leased or store.find(connection, message.tenant_id, message.run_id)
        if run is None or run.status != Status.PROCESSING or run.lease_token != token:
            _LOG.info("nothing to do", extra={"run_id": str(message.run_id), "known": run is not None})
            return WorkOutcome.SKIPPED
        return run, inputs or {}

    return with_retries(take, pauses_seconds=effects.pauses_seconds)


def _result(run: Run, inputs: dict[str, Any], effects: WorkEffects, cancelled: threading.Event) -> PackResult:
    """What the run's pack answers; it is not started for inputs that name what is not the tenant's."""
    try:
        request = _request(run, inputs, effects.storage)
    except ObjectRefusedError as refused:
        return PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID, detail=str(refused))
    return effects.packs.run(request, cancelled=cancelled)


def _finish(run: Run, result: PackResult, effects: WorkEffects) -> Run | None:
    """End the run as its pack's answer says; None for the loser of the claim."""
    result, charge, made = _enveloped(run, _reliable(run, result))
    failure = result if isinstance(result, PackFailure) else None
    intent = Intent(
        outcome=Status.FAILED if failure else Status.COMPLETED,
        money_state=MoneyState.SETTLED,
        charge_usd_micros=charge,
        tokens_consumed=result.tokens_consumed if isinstance(result, PackSuccess) else 0,
        result=ResultPointer(effects.storage.bucket, envelope_key(run), made.sha256),
        reason_code=failure.reason_code if failure else None,
        detail=failure.detail if failure else None,
    )
    guard = Guard(Status.PROCESSING, lease_token=run.lease_token)
    ends = finalize.FinalizeEffects(effects.database, effects.ledger, effects.storage, effects.pauses_seconds)
    return finalize.finish(ends, run, guard, intent, envelope=made.body)


def _reliable(run: Run, result: PackResult) -> PackResult:
    """The answer, or a failure where it is less reliable than the run asks for (RUN-3); equal is enough.

    Here and not in the pack's process: every answer passes, whatever gave it, and the row's exact decimal is at
    hand. Compared as the decimals that people read, since the double 0.7 is below the decimal 0.7.
    """
    if not isinstance(result, PackSuccess):
        return result
    score = Decimal(str(result.reliability_score))
    if score >= run.min_reliability_score:
        return result
    # Cut, not rounded, so that no score is said to be below itself.
    shown = score.quantize(_SHOWN_SCORE, ROUND_FLOOR)
    detail = f"reliability {shown:f} is below the minimum {run.min_reliability_score:f}"
    return PackFailure(reason_code=PackReason.PACK_RELIABILITY_BELOW_MINIMUM, detail=detail)


def _enveloped(run: Run, result: PackResult) -> tuple[PackResult, int, envelope.Envelope]:
    """A pack's answer with its charge and envelope; one that fits no envelope becomes a failure."""
    try:
        charge = _charge(run, result)
        return result, charge, envelope.build(run, result, charge)
    except envelope.EnvelopeRefused as refused:
        failure = PackFailure(reason_code=refused.reason, detail=str(refused))
        charge = _charge(run, failure)
        return failure, charge, envelope.build(run, failure, charge)


def _charge(run: Run, result: PackResult) -> int:
    """Micros: a pack's cost, or the minimum fee of one that failed, within the reservation (RUN-17, RUN-23)."""
    cost = result.cost_usd_micros if isinstance(result, PackSuccess) else run.minimum_fee_usd_micros
    return charge_within(cost, run.reservation_max_cost_usd_micros)


def _request(run: Run, inputs: dict[str, Any], storage: ObjectStore) -> PackRequest:
    return PackRequest(
        run_id=run.id,
        pack_type=run.pack_type,
        inputs=inputs,
        timebox_sec=run.timebox_sec,
        max_cost_usd_micros=run.reservation_max_cost_usd_micros,
        trace_id=run.trace_id,
        object_urls=signed_urls(run.pack_type, inputs, run.tenant_id, storage, run.timebox_sec),
    )
