"""The ways out of a submit that was admitted and can't go on: give back, give up, and the response of a taken key.

A step that fails here loses no money: reconcile refunds a reservation without a run (D2), finishes a claim (RUN-22),
and sends the message of a run that has none (D5).
"""

import logging
from dataclasses import replace

from dpp.money.ledger import Ledger, LedgerError
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, QueueUnavailable, RedisUnavailable
from dpp.runs import admission, errors, finalize, submit_store
from dpp.runs.admission import Admission
from dpp.runs.endings import ending_of
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.machine import FinalizeStage, MoneyState, Reason, Status
from dpp.runs.model import Costs, Intent, Run, SubmitRequest
from dpp.runs.store import Guard

_LOG = logging.getLogger("dpp.runs.submit")
_NOT_QUEUED_YET = "The run could not be queued yet. Send the request again to see its state."
_NEVER_QUEUED = Intent(
    outcome=Status.FAILED,
    money_state=MoneyState.REFUNDED,
    charge_usd_micros=0,
    reason_code=Reason.QUEUE_ENQUEUE_FAILED,
    detail="The run could not be queued.",
)


def give_back(request: SubmitRequest, admitted: Admission, ledger: Ledger) -> Admission:
    """Refund the reservation of a run that was certainly not inserted; the admission with the balance after it.

    If that fails, reconcile refunds it (D2), and the returned balance is the lower one.
    """
    try:
        ledger.refund_full(request.tenant_id, str(admitted.run_id))
        admission.forget(ledger, request, admitted.run_id, request.payload_hash)
    except (RedisUnavailable, LedgerError):
        _LOG.warning("reservation without a run left to reconcile", extra={"run_id": str(admitted.run_id)})
        return admitted
    return replace(admitted, balance_usd_micros=admitted.balance_usd_micros + request.reserved_usd_micros)


def give_up(
    request: SubmitRequest, admitted: Admission, run: Run, effects: FinalizeEffects, cause: QueueUnavailable
) -> None:
    """End a run that could not be queued (RUN-8). Returns only if its message was sent after all.

    Raises EnqueueFailed. If the refund can't be finished now, reconcile finishes it (a claim) or sends the message (no
    claim yet), and a repeated submit with the same key finds that run.
    """
    detail, ending = _NOT_QUEUED_YET, None
    remaining = admitted.balance_usd_micros
    try:
        ended = finalize.finish(effects, run, Guard(Status.QUEUED, lease_token=None), _NEVER_QUEUED)
        if ended is None:
            return
        ending = ending_of(ended)
        if ended.money_state == MoneyState.REFUNDED:
            detail = ""
            remaining += run.reservation_max_cost_usd_micros
        admission.forget(effects.ledger, request, run.run_id, run.payload_hash)
    except DependencyUnavailable as error:
        _LOG.error("refund left to reconcile", extra={"run_id": run.id, "error": {"dependency": error.dependency}})
    costs = Costs(budget_remaining_usd_micros=remaining)
    raise errors.EnqueueFailed(detail, run_id=run.id, rate=admitted.rate, costs=costs, ending=ending) from cause


def run_of_taken_key(
    request: SubmitRequest, admitted: Admission, refused: errors.DuplicateKey | errors.SwitchedOff, database: Database
) -> Run:
    """The live run of a key whose insert was refused, to be returned again.

    Also while execution is disabled, since nothing new is promised (TIX-1). Raises ExecutionDisabled and
    IdempotencyInProgress if there is no such run, and as `replayable`.
    """
    known = database.using(submit_store.find_by_key, request.tenant_id, request.idempotency_key)
    if known is not None:
        return replayable(known, request, admitted)
    # A duplicate without a live run ended between the two statements and freed the key.
    kind = errors.ExecutionDisabled if isinstance(refused, errors.SwitchedOff) else errors.IdempotencyInProgress
    raise admitted.error(kind)


def replayable(known: Run, request: SubmitRequest, admitted: Admission) -> Run:
    """`known`, if this request may get its receipt. Raises IdempotencyConflict, EnqueueFailed."""
    if known.payload_hash != request.payload_hash:
        raise admitted.error(errors.IdempotencyConflict, run=known)
    is_claimed = known.finalize_stage == FinalizeStage.CLAIMED
    if is_claimed and known.last_error_reason_code == Reason.QUEUE_ENQUEUE_FAILED:
        # Its refund is under way, and then its key is free: a receipt would promise a run that never executes (RUN-8).
        raise admitted.error(errors.EnqueueFailed, _NOT_QUEUED_YET, run=known)
    return known
