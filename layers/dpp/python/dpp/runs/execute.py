"""Execute a run (RUN-16 … RUN-19): lease it, run its pack, end it by the two-stage finalize.

After a crash before the lease, the message is delivered again. After a crash under the lease, the reaper ends the run
when the lease has expired (RUN-20); after the claim, reconcile does (RUN-22). A run whose execution is disabled is
parked instead, and reconcile sends it again (TIX-1, D5).
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
from dpp.packs.contract import ObjectRefusedError, PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.objects import signed_urls
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.ids import new_id
from dpp.platform.retry import PAUSES_SECONDS, with_retries
from dpp.runs import baseline, envelope, finalize, lease, store
from dpp.runs.endings import Ending, ending_of
from dpp.runs.lease import Heartbeat, LeaseEffects
from dpp.runs.machine import MoneyState, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import BASELINE_FIELD, Intent, ResultPointer, Run, envelope_key
from dpp.runs.store import Guard

_LOG = logging.getLogger("dpp.runs.execute")
_SCORE_STEP = Decimal("0.0001")


class Packs(Protocol):
    """Runs packs, as `dpp.packs.process.PackProcess` does: each in a process that can be killed (D6)."""

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """The pack's result, within its timebox; `cancelled` ends it at once."""

    def prestart(self) -> None:
        """Prepare for the next run."""


@dataclass(frozen=True, slots=True)
class WorkEffects:
    """Connections and clients that the worker uses. `new_database` opens a connection for the heartbeat's thread."""

    database: Database
    new_database: Callable[[], Database]
    ledger: Ledger
    queue: Queue
    storage: ObjectStore
    packs: Packs
    pauses_seconds: Sequence[float] = PAUSES_SECONDS
    heartbeat_interval_seconds: float = lease.HEARTBEAT_INTERVAL_SECONDS


class WorkOutcome(StrEnum):
    """The outcome of a message; with each of them the message is acknowledged."""

    SKIPPED = "SKIPPED"
    PARKED = "PARKED"
    LEASE_LOST = "LEASE_LOST"
    CLAIM_LOST = "CLAIM_LOST"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class Worked:
    """The outcome of a message. `waited_seconds`: until its run was leased. `ending`: how the run ended, if it did."""

    outcome: WorkOutcome
    waited_seconds: float | None = None
    ending: Ending | None = None


def execute(message: RunMessage, receipt_handle: str, effects: WorkEffects) -> Worked:
    """Execute the run of one message. Raises DependencyUnavailable if the message should be delivered again."""
    leased = _lease(message, effects)
    if isinstance(leased, WorkOutcome):
        return Worked(leased)
    run, inputs = leased
    # Two clocks, the sender's and Postgres's: only measured; nothing is decided by it (D1).
    waited_seconds = max(0, (run.updated_at - message.enqueued_at).total_seconds())
    lease.take_in_redis(effects.ledger, run)
    lease_effects = LeaseEffects(effects.new_database(), effects.ledger, effects.queue)
    with Heartbeat(lease_effects, run, receipt_handle, effects.heartbeat_interval_seconds) as heartbeat:
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
    """The run with a new lease, and its inputs; or SKIPPED if there is nothing to do (RUN-16), PARKED if disabled.

    Retries with the same token find a lease whose reply was lost, and the inputs are read before the lease. Otherwise a
    short failure would leave a leased run without a worker, and its client would pay the minimum fee.
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
    """The result of the run's pack, which is not started if its inputs name objects of another tenant."""
    try:
        if inputs.get(BASELINE_FIELD) is not None:
            inputs = _with_baseline(run, inputs, effects)
        request = _request(run, inputs, effects.storage)
    except ObjectRefusedError as refused:
        return PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID, detail=str(refused))
    return effects.packs.run(request, cancelled=cancelled)


def _with_baseline(run: Run, inputs: dict[str, Any], effects: WorkEffects) -> dict[str, Any]:
    return with_retries(
        lambda: baseline.filled_in(inputs, run.tenant_id, effects.database, effects.storage),
        pauses_seconds=effects.pauses_seconds,
    )


def _finish(run: Run, result: PackResult, effects: WorkEffects) -> Run | None:
    """End the run with its pack's result; None for the loser of the claim."""
    result, charge, built = _enveloped(run, _reliable(run, result))
    failure = result if isinstance(result, PackFailure) else None
    pointer = ResultPointer(effects.storage.bucket, envelope_key(run), built.sha256, tuple(built.parts))
    intent = Intent(
        outcome=Status.FAILED if failure else Status.COMPLETED,
        money_state=MoneyState.SETTLED,
        charge_usd_micros=charge,
        tokens_consumed=result.tokens_consumed,
        result=pointer,
        reason_code=failure.reason_code if failure else None,
        detail=failure.detail if failure else None,
    )
    guard = Guard(Status.PROCESSING, lease_token=run.lease_token)
    ends = finalize.FinalizeEffects(effects.database, effects.ledger, effects.storage, effects.pauses_seconds)
    uploads = {pointer.part_key(part): body for part, body in built.parts.items()} | {pointer.key: built.body}
    return finalize.finish(ends, run, guard, intent, uploads=uploads)


def _reliable(run: Run, result: PackResult) -> PackResult:
    """The result, or a failure if it is less reliable than the run requires (RUN-3); equal is enough.

    Checked here and not in the pack's process, so that no result avoids it and the row's exact decimal is compared.
    Both are compared as decimals, because the double 0.7 is below the decimal 0.7.
    """
    if not isinstance(result, PackSuccess):
        return result
    score = Decimal(str(result.reliability_score))
    if score >= run.min_reliability_score:
        return result
    # Rounded down: otherwise a score could be reported as below itself.
    rounded = score.quantize(_SCORE_STEP, ROUND_FLOOR)
    detail = f"reliability {rounded:f} is below the minimum {run.min_reliability_score:f}"
    return result.failed(PackReason.PACK_RELIABILITY_BELOW_MINIMUM, detail)


def _enveloped(run: Run, result: PackResult) -> tuple[PackResult, int, envelope.Envelope]:
    """A pack's result with its charge and envelope; a result that fits no envelope becomes a failure."""
    try:
        charge = _charge(run, result)
        return result, charge, envelope.build(run, result, charge)
    except envelope.EnvelopeRefused as refused:
        failure = PackFailure(reason_code=refused.reason, detail=str(refused), tokens_consumed=result.tokens_consumed)
        charge = _charge(run, failure)
        return failure, charge, envelope.build(run, failure, charge)


def _charge(run: Run, result: PackResult) -> int:
    """Micros: the pack's cost, or the minimum fee if it failed, within the reservation (RUN-17, RUN-23)."""
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
