"""Submit a run (RUN-2, RUN-4, RUN-8; 001 §11.2): admit and reserve, insert, map the key, enqueue.

A crash between any two steps loses no money:

- after the reservation, before the insert: the index holds a reservation with no run; reconcile refunds it (D2).
- after the insert, before the message: `enqueued_at` is empty; reconcile sends the message (D5).
- after the message, before `enqueued_at`: reconcile sends a second one, which the worker's CAS makes harmless.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Self, assert_never

from dpp.money.ledger import Ledger, LedgerError, LedgerLost
from dpp.money.rebuild import is_lost
from dpp.packs.contract import PackType
from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings
from dpp.platform.db.postgres import Database
from dpp.platform.db.rate_limit import RateState
from dpp.platform.errors import (
    DependencyUnavailable,
    PostgresNotReached,
    PostgresUnavailable,
    QueueUnavailable,
    RedisUnavailable,
)
from dpp.platform.ids import new_id
from dpp.platform.keys.api_keys import Caller
from dpp.runs import admission, finalize, store
from dpp.runs.admission import Admission, Admitted, Drained, Locked, Mapped, Ticket, TooMany
from dpp.runs.endings import Ending, ending_of
from dpp.runs.errors import (
    BudgetDrained,
    DuplicateKey,
    EnqueueFailed,
    ExecutionDisabled,
    IdempotencyConflict,
    IdempotencyInProgress,
    RateLimited,
    SwitchedOff,
)
from dpp.runs.machine import FinalizeStage, MoneyState, Reason, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import Costs, Intent, Run
from dpp.runs.payload_hash import payload_hash
from dpp.runs.store import Guard, NewRun

_LOG = logging.getLogger("dpp.runs.submit")
_NOT_QUEUED_YET = "The run could not be queued yet. Send it again to see what became of it."


@dataclass(frozen=True, slots=True)
class Order:
    """What a client asks for, validated."""

    idempotency_key: str
    pack_type: PackType
    inputs: Mapping[str, object]
    reserved_usd_micros: int
    timebox_sec: int
    min_reliability_score: float
    inline_result: bool
    profile_version: str
    trace_id: str


class SubmitSettings(PostgresSettings, RedisSettings, QueueSettings):
    """Rows, budgets and the run queue."""


@dataclass(frozen=True, slots=True)
class SubmitEffects:
    """What a submit touches."""

    database: Database
    ledger: Ledger
    queue: Queue

    @classmethod
    def connect(cls, settings: SubmitSettings) -> Self:
        """What the settings name; connections open at their first use."""
        ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
        return cls(Database(settings.database), ledger, Queue(settings.run_queue_url))


@dataclass(frozen=True, slots=True)
class Submitted:
    """An accepted run, new or known, with what the answer's headers say."""

    run: Run
    costs: Costs
    rate: RateState
    replayed: bool

    @property
    def outcome(self) -> str:
        """As the metric of submits names it."""
        return "REPLAYED" if self.replayed else "ACCEPTED"

    def headers(self) -> dict[str, str]:
        """What its answer says besides the receipt (RUN-13, RUN-14)."""
        replayed = {"Idempotent-Replayed": "true" if self.replayed else "false"}
        return {**self.costs.headers(), **self.rate.headers(), **replayed}


def submit(order: Order, caller: Caller, effects: SubmitEffects) -> Submitted:
    """Accept a run once per idempotency key. Raises RunsError and DependencyUnavailable."""
    ticket = _ticket(order, caller)
    admitted = admission.admit(effects.ledger, caller, ticket)
    known = _known_run(ticket, admitted, effects)
    if known is not None:
        return _replay(known, ticket, admitted)
    if isinstance(admitted.outcome, Mapped):
        # The mapping leads to a run that never reached the queue (RUN-8) or is past its retention: the key is free.
        stale = admitted.outcome
        admission.forget(
            effects.ledger, caller.tenant_id, order.idempotency_key, stale.run_id, stale.payload_hash
        )
        admitted = admission.admit(effects.ledger, caller, ticket)
    match admitted.outcome:
        case Admitted():
            return _accept(order, ticket, admitted, effects)
        case TooMany():
            raise RateLimited(rate=admitted.rate, costs=_only_balance(admitted))
        case Drained():
            raise BudgetDrained(rate=admitted.rate, costs=_only_balance(admitted))
        case Mapped(payload_hash=other) | Locked(payload_hash=other):
            raise _under_way(ticket, admitted, other)
        case _:
            assert_never(admitted.outcome)


def _accept(order: Order, ticket: Ticket, admitted: Admission, effects: SubmitEffects) -> Submitted:
    try:
        with effects.database.connection() as connection:
            run = store.insert(connection, _new_run(order, ticket))
    except (DuplicateKey, SwitchedOff) as refused:
        return _answer_of_key(ticket, _give_back(ticket, admitted, effects), effects, refused)
    except PostgresNotReached:
        _give_back(ticket, admitted, effects)
        raise
    # Any other PostgresUnavailable leaves open whether the row stands. Nothing is given back then: with no row,
    # reconcile refunds the orphan; with one, it sends the message.
    try:
        admission.remember(effects.ledger, ticket)
    except RedisUnavailable:
        _LOG.warning(
            "idempotency mapping not written; the unique index guards alone", extra={"run_id": run.id}
        )
    _enqueue(run, ticket, admitted, effects)
    return _submitted(run, admitted, replayed=False)


def _enqueue(run: Run, ticket: Ticket, admitted: Admission, effects: SubmitEffects) -> None:
    """Send the run's message. Raises EnqueueFailed once the reservation is given back."""
    try:
        effects.queue.send(RunMessage.of(run, datetime.now(UTC)).model_dump_json())
    except QueueUnavailable as error:
        _give_up(run, ticket, admitted, effects, error)
        return
    try:
        with effects.database.connection() as connection:
            store.mark_enqueued(connection, run)
    except PostgresUnavailable:
        _LOG.warning("enqueued_at not written; reconcile will send once more", extra={"run_id": run.id})


def _give_up(
    run: Run, ticket: Ticket, admitted: Admission, effects: SubmitEffects, cause: QueueUnavailable
) -> None:
    """End a run that could not be queued (RUN-8). Returns only if the message got through after all.

    Raises EnqueueFailed. Where the refund can't be finished now, reconcile finishes it (a claim) or sends the
    message (no claim yet); the client's repetition with the same key then finds that run.
    """
    intent = Intent(
        outcome=Status.FAILED,
        money_state=MoneyState.REFUNDED,
        charge_usd_micros=0,
        reason_code=Reason.QUEUE_ENQUEUE_FAILED,
        detail="The run could not be queued.",
    )
    ends = finalize.FinalizeEffects(effects.database, effects.ledger)
    detail: str | None = _NOT_QUEUED_YET
    remaining = admitted.balance_usd_micros
    ending: Ending | None = None
    try:
        ended = finalize.finish(ends, run, Guard(Status.QUEUED, lease_token=None), intent)
        if ended is None:
            return
        ending = ending_of(ended)
        if ended.money_state == MoneyState.REFUNDED:
            detail = None
            remaining += run.reservation_max_cost_usd_micros
        admission.forget(effects.ledger, run.tenant_id, ticket.idempotency_key, run.run_id, run.payload_hash)
    except DependencyUnavailable as error:
        _LOG.error(
            "refund left to reconcile", extra={"run_id": run.id, "error": {"dependency": error.dependency}}
        )
    costs = Costs(budget_remaining_usd_micros=remaining)
    failed = EnqueueFailed(detail, run_id=run.id, rate=admitted.rate, costs=costs)
    failed.ending = ending
    raise failed from cause


def _give_back(ticket: Ticket, admitted: Admission, effects: SubmitEffects) -> Admission:
    """Refund the reservation of a run that was certainly not inserted: the admission with the balance after it.

    What fails here is left to reconcile (D2), and the balance is the lowered one until then.
    """
    try:
        effects.ledger.refund_full(ticket.tenant_id, str(ticket.run_id))
        admission.forget(
            effects.ledger, ticket.tenant_id, ticket.idempotency_key, ticket.run_id, ticket.payload_hash
        )
    except (RedisUnavailable, LedgerError):
        _LOG.warning("reservation without a run left to reconcile", extra={"run_id": str(ticket.run_id)})
        return admitted
    return replace(admitted, balance_usd_micros=admitted.balance_usd_micros + ticket.reserved_usd_micros)


def _known_run(ticket: Ticket, admitted: Admission, effects: SubmitEffects) -> Run | None:
    """The living run that the key belongs to, as far as Redis gave reason to look.

    A repetition whose mapping was lost needs no money: its run has it already, so a short budget is a reason too.
    Raises LedgerLost where the budget is short because Redis lost it: that is our fault, and passes (D2).
    """
    if not isinstance(admitted.outcome, Mapped | Locked | Drained):
        return None
    with effects.database.connection() as connection:
        known = store.find_by_key(connection, ticket.tenant_id, ticket.idempotency_key)
        drained = isinstance(admitted.outcome, Drained) and admitted.balance_usd_micros == 0
        if known is None and drained and is_lost(connection, effects.ledger, ticket.tenant_id):
            raise LedgerLost("the balance is gone")
    return known


def _answer_of_key(
    ticket: Ticket, admitted: Admission, effects: SubmitEffects, refused: DuplicateKey | SwitchedOff
) -> Submitted:
    """The answer to a request whose insert was refused: the receipt of the key's living run, where there is one.

    Disabled or not, since it promises nothing new (TIX-1). Raises ExecutionDisabled, IdempotencyInProgress.
    """
    with effects.database.connection() as connection:
        known = store.find_by_key(connection, ticket.tenant_id, ticket.idempotency_key)
    if known is not None:
        return _replay(known, ticket, admitted)
    # Of a duplicate: it ended between the two statements and freed the key.
    error = ExecutionDisabled if isinstance(refused, SwitchedOff) else IdempotencyInProgress
    raise error(rate=admitted.rate, costs=_only_balance(admitted))


def _replay(known: Run, ticket: Ticket, admitted: Admission) -> Submitted:
    if known.payload_hash != ticket.payload_hash:
        raise IdempotencyConflict(run_id=known.id, rate=admitted.rate, costs=_only_balance(admitted))
    if (
        known.finalize_stage == FinalizeStage.CLAIMED
        and known.last_error_reason_code == Reason.QUEUE_ENQUEUE_FAILED
    ):
        # Its refund is under way: a receipt would promise a run that nobody works on, and then free its key (RUN-8).
        raise EnqueueFailed(
            _NOT_QUEUED_YET, run_id=known.id, rate=admitted.rate, costs=_only_balance(admitted)
        )
    return _submitted(known, admitted, replayed=True)


def _submitted(run: Run, admitted: Admission, *, replayed: bool) -> Submitted:
    fields = {
        "run_id": run.id,
        "tenant_id": run.tenant_id,
        "trace_id": run.trace_id,
        "status": run.status,
        "version_before": run.version if replayed else None,
        "version_after": run.version,
        "finalize_stage": run.finalize_stage,
        "money_state": run.money_state,
        "reserved_usd_micros": run.reservation_max_cost_usd_micros,
        "replayed": replayed,
    }
    _LOG.info("run accepted", extra=fields)  # the locked fields of RUN-31
    return Submitted(run, Costs.of(run, admitted.balance_usd_micros), admitted.rate, replayed)


def _under_way(
    ticket: Ticket, admitted: Admission, other_hash: str
) -> IdempotencyConflict | IdempotencyInProgress:
    conflict = other_hash != ticket.payload_hash
    error = IdempotencyConflict if conflict else IdempotencyInProgress
    return error(rate=admitted.rate, costs=_only_balance(admitted))


def _only_balance(admitted: Admission) -> Costs:
    return Costs(budget_remaining_usd_micros=admitted.balance_usd_micros)


def _ticket(order: Order, caller: Caller) -> Ticket:
    return Ticket(
        tenant_id=caller.tenant_id,
        run_id=new_id(),
        idempotency_key=order.idempotency_key,
        payload_hash=payload_hash(
            order.pack_type, order.inputs, order.timebox_sec, order.reserved_usd_micros
        ),
        reserved_usd_micros=order.reserved_usd_micros,
        created_at_ms=int(datetime.now(UTC).timestamp() * 1000),
    )


def _new_run(order: Order, ticket: Ticket) -> NewRun:
    return NewRun(
        run_id=ticket.run_id,
        tenant_id=ticket.tenant_id,
        pack_type=order.pack_type,
        profile_version=order.profile_version,
        idempotency_key=order.idempotency_key,
        payload_hash=ticket.payload_hash,
        reserved_usd_micros=order.reserved_usd_micros,
        timebox_sec=order.timebox_sec,
        min_reliability_score=order.min_reliability_score,
        inline_result=order.inline_result,
        trace_id=order.trace_id,
        inputs=order.inputs,
    )
