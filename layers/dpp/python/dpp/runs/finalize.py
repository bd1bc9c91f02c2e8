"""The end of a run (RUN-19, D3), the only code that ends one: all who end one call it.

    claim    one CAS on version and state; it records what is about to happen. Who gets no row stops there:
             a loser settles nothing and writes nothing, in S3 neither.
    upload   the envelope, where the worker brings one.
    settle   or refund, in the ledger; asked twice it answers its receipt.
    commit   one CAS on version and finalize token; the run ends as the intent says.

A crash after the claim, at whatever line, leaves a run CLAIMED with its intent; reconcile takes the claim over
after 5 minutes and repeats the same steps with the same values. The winner is certainly gone by then: no
function of the platform may run that long.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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
    """What ending a run touches; `storage` only where an envelope may have to be written.

    `pauses_seconds`: the worker holds a result that is lost with it, so it tries each step again; a job
    leaves a step that failed to the next firing.
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
    envelope: bytes | None = None,
    now: datetime | None = None,
) -> Run | None:
    """Claim the end of `run` and carry it through; the run as it then stands (committed or DISPUTED).

    None for a loser, who has touched nothing. Raises DependencyUnavailable after the claim where a step
    failed; reconcile then finishes. `envelope` must be given with a result pointer, and only then.
    """
    token = str(new_id())

    def claim() -> Run | None:
        with effects.database.connection() as connection:
            return store.claim(connection, run, guard, intent, finalize_token=token, now=now)

    claimed = with_retries(claim, pauses_seconds=effects.pauses_seconds)
    if claimed is None:
        _LOG.info(
            "claim lost", extra={"run_id": run.id, "tenant_id": run.tenant_id, "version_before": run.version}
        )
        return None
    return roll_forward(effects, claimed, envelope=envelope, now=now)


def take_over(
    effects: FinalizeEffects, stuck: Run, intent: Intent, *, now: datetime | None = None
) -> Run | None:
    """Repeat the steps of a claim that was never committed (RUN-22); None where it has moved meanwhile."""
    with effects.database.connection() as connection:
        claimed = store.reclaim(
            connection,
            stuck,
            intent,
            finalize_token=str(new_id()),
            stuck_after_seconds=STUCK_AFTER_SECONDS,
            now=now,
        )
    return None if claimed is None else roll_forward(effects, claimed, now=now)


def resolve(effects: FinalizeEffects, run: Run, intent: Intent, *, now: datetime | None = None) -> Run | None:
    """End a disputed run as an operator decided (D3); None where it is disputed no more.

    The ledger is opened first: a crash before the claim leaves the run DISPUTED with its reservation held, and the
    same command goes on from there; one after it is reconcile's to finish. Raises NoReservation.
    """
    kind = CloseKind(intent.money_state.value)
    effects.ledger.reopen(
        run.tenant_id, run.id, run.reservation_max_cost_usd_micros, intent.charge_usd_micros, kind
    )
    with effects.database.connection() as connection:
        claimed = store.resolve(connection, run, intent, finalize_token=str(new_id()), now=now)
    return None if claimed is None else roll_forward(effects, claimed, now=now)


def roll_forward(
    effects: FinalizeEffects, claimed: Run, *, envelope: bytes | None = None, now: datetime | None = None
) -> Run | None:
    """Everything after the claim, repeatable; None where the claim was taken over before the commit.

    Raises ReservationLost where Redis has lost the run's reservation: the claim stays, reconcile's audit enters the
    reservation anew, and a later firing finishes the claim.
    """
    intent = claimed.intent
    if envelope is not None:
        _upload(effects, intent, envelope)
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


def move_again(ledger: Ledger, ended: Run) -> Closed:
    """Repeat the ledger move of a run that has ended, which Redis may have lost since (D2).

    Its row says what was charged, so nothing is guessed. Raises NoReservation, RedisUnavailable.
    """
    return _move_money(ledger, ended, ended.intent)


def _upload(effects: FinalizeEffects, intent: Intent, envelope: bytes) -> None:
    storage, result = effects.storage, intent.result
    if storage is None or result is None:
        raise ValueError("an envelope needs a store and a recorded place")
    with_retries(lambda: storage.put_json(result.key, envelope), pauses_seconds=effects.pauses_seconds)


def _move_money(ledger: Ledger, claimed: Run, intent: Intent) -> Closed:
    if intent.money_state == MoneyState.REFUNDED:
        return ledger.refund_full(claimed.tenant_id, claimed.id)
    return ledger.settle(claimed.tenant_id, claimed.id, intent.charge_usd_micros)


def _dispute(effects: FinalizeEffects, claimed: Run, detail: str, now: datetime | None) -> Run | None:
    with effects.database.connection() as connection:
        disputed = store.dispute(connection, claimed, detail, now)
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
