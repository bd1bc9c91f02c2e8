"""The end of a run (RUN-19, D3). Only this module ends runs; worker, submit, jobs and operators call it.

    claim    one CAS on version and state, which records the intent. A caller that gets no row has lost and stops:
             it settles nothing and writes nothing, neither to Postgres nor to S3.
    upload   the envelope, if the worker has one, after the parts that are objects of their own.
    settle   or refund, in the ledger; a repetition returns the receipt.
    commit   one CAS on version and finalize token; the run ends as the intent says.

A crash anywhere after the claim leaves the run CLAIMED with its intent. After 5 minutes reconcile takes the claim over
and repeats the same steps with the same values. By then the first holder has ended: no function may run that long.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from dpp.money.ledger import Closed, CloseKind, Ledger, NoReservation, ReservationLost
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.ids import new_id
from dpp.platform.retry import with_retries
from dpp.runs import store
from dpp.runs.machine import MoneyState, Reason
from dpp.runs.model import Intent, Run
from dpp.runs.store import Guard

_LOG = logging.getLogger("dpp.runs.finalize")
STUCK_AFTER_SECONDS = 300


@dataclass(frozen=True, slots=True)
class FinalizeEffects:
    """Connections and clients that ending a run uses; `storage` only to write an envelope.

    `pauses_seconds`: pauses between retries of a step. The worker retries, because its result would be lost with it; a
    job leaves a failed step to its next tick.
    """

    database: Database
    ledger: Ledger
    storage: ObjectStore | None = None
    pauses_seconds: Sequence[float] = ()


def finish(
    effects: FinalizeEffects,
    run: Run,
    guard: Guard,
    intent: Intent,
    *,
    uploads: Mapping[str, bytes] | None = None,
    now: datetime | None = None,
) -> Run | None:
    """Claim the end of `run`, do all steps, and return the ended run (committed or DISPUTED).

    None for a loser, which has changed nothing. Raises DependencyUnavailable if a step after the claim failed;
    reconcile then finishes. `uploads`, of JSON by key, must be given with a result pointer, and only then. The envelope
    is the last one, so it proves the others.
    """
    token = str(new_id())

    def claim() -> Run | None:
        return effects.database.using(store.claim, run, guard, intent, finalize_token=token, now=now)

    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)
    if claimed is None:
        _LOG.info("claim lost", extra={"run_id": run.id, "tenant_id": run.tenant_id, "version_before": run.version})
        return None
    return roll_forward(effects, claimed, uploads=uploads, now=now)


def take_over(effects: FinalizeEffects, stuck: Run, intent: Intent, *, now: datetime | None = None) -> Run | None:
    """Take over a claim that was never committed, and repeat its steps (RUN-22); None if it has changed meanwhile."""
    claimed = effects.database.using(
        store.reclaim, stuck, intent, finalize_token=str(new_id()), stuck_after_seconds=STUCK_AFTER_SECONDS, now=now
    )
    return None if claimed is None else roll_forward(effects, claimed, now=now)


def resolve(effects: FinalizeEffects, run: Run, intent: Intent, *, now: datetime | None = None) -> Run | None:
    """End a disputed run as an operator decided (D3); None if it is no longer disputed.

    The ledger is reopened first: a crash before the claim leaves the run DISPUTED with its reservation held, and the
    same command continues from there. After the claim, reconcile finishes. Raises NoReservation.
    """
    kind = CloseKind(intent.money_state.value)
    effects.ledger.reopen(run.tenant_id, run.id, run.reservation_max_cost_usd_micros, intent.charge_usd_micros, kind)
    claimed = effects.database.using(store.resolve, run, intent, finalize_token=str(new_id()), now=now)
    return None if claimed is None else roll_forward(effects, claimed, now=now)


def roll_forward(
    effects: FinalizeEffects, claimed: Run, *, uploads: Mapping[str, bytes] | None = None, now: datetime | None = None
) -> Run | None:
    """All steps after the claim, repeatable; None if the claim was taken over before the commit.

    Raises ReservationLost if Redis has lost the run's reservation: the claim stays, reconcile's audit enters the
    reservation again, and a later tick finishes the claim.
    """
    intent = claimed.intent
    if uploads is not None:
        _upload(effects, intent, uploads)
    try:
        closed = with_retries(
            lambda: _move_money(effects.ledger, claimed, intent), pauses_seconds=effects.pauses_seconds
        )
    except NoReservation:
        raise ReservationLost(f"run {claimed.id} has neither a reservation nor a receipt") from None
    if closed.kind.value != intent.money_state.value or closed.charge_usd_micros != intent.charge_usd_micros:
        return _dispute(effects, claimed, "The ledger's receipt differs from the recorded intent.", now)

    def commit() -> Run | None:
        with effects.database.connection() as connection:
            release = intent.reason_code == Reason.QUEUE_ENQUEUE_FAILED
            return store.commit(connection, claimed, release_idempotency_key=release, now=now)

    ended = with_retries(commit, pauses_seconds=effects.pauses_seconds)
    if ended is not None:
        _LOG.info("run ended", extra=_log_fields(claimed, ended, closed))
    return ended


def repeat_move(ledger: Ledger, ended: Run) -> Closed:
    """Repeat the ledger move of an ended run, which Redis may have lost since (D2).

    The charge is that of its row, so nothing is guessed. Raises NoReservation, RedisUnavailable.
    """
    return _move_money(ledger, ended, ended.intent)


def _upload(effects: FinalizeEffects, intent: Intent, uploads: Mapping[str, bytes]) -> None:
    storage, result = effects.storage, intent.result
    if storage is None or result is None:
        raise ValueError("an envelope needs an object store and a recorded result pointer")
    for key, body in uploads.items():
        with_retries(partial(storage.put_json, key, body), pauses_seconds=effects.pauses_seconds)


def _move_money(ledger: Ledger, claimed: Run, intent: Intent) -> Closed:
    if intent.money_state == MoneyState.REFUNDED:
        return ledger.refund_full(claimed.tenant_id, claimed.id)
    return ledger.settle(claimed.tenant_id, claimed.id, intent.charge_usd_micros)


def _dispute(effects: FinalizeEffects, claimed: Run, detail: str, now: datetime | None) -> Run | None:
    disputed = effects.database.using(store.dispute, claimed, detail, now)
    if disputed is not None:
        _LOG.error("run disputed", extra=_log_fields(claimed, disputed, None) | {"detail": detail})
    return disputed


def _log_fields(before: Run, after: Run, closed: Closed | None) -> dict[str, object]:
    fields = after.log_fields(version_before=before.version)
    if closed is not None:
        fields |= {
            "charge_usd_micros": closed.charge_usd_micros,
            "refund_usd_micros": closed.refund_usd_micros,
            "repeated": closed.repeated,
        }
    if after.last_error_reason_code is not None:
        fields["error"] = {"reason_code": after.last_error_reason_code}
    return fields
