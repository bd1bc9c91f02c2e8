"""Submit a run (RUN-2, RUN-4, RUN-8; 001 §11.2): admit and reserve, insert, map the key, enqueue.

A crash between two steps loses no money:

- after the reservation, before the insert: the index holds a reservation without a run; reconcile refunds it (D2).
- after the insert, before the message: `enqueued_at` is empty; reconcile sends the message (D5).
- after the message, before `enqueued_at`: reconcile sends a second message, which the worker's CAS makes harmless.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self, assert_never

from dpp.money.ledger import Ledger, LedgerLost
from dpp.money.rebuild import is_lost
from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings
from dpp.platform.db.postgres import Database
from dpp.platform.db.rate_limit import RateState
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable, QueueUnavailable, RedisUnavailable
from dpp.platform.ids import new_id
from dpp.runs import admission, compensations, errors, submit_store
from dpp.runs.admission import Admission, Admitted, Locked, Mapped
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.message import RunMessage
from dpp.runs.model import Costs, Run, SubmitRequest

_LOG = logging.getLogger("dpp.runs.submit")


class SubmitSettings(PostgresSettings, RedisSettings, QueueSettings):
    """Postgres, Redis and the run queue."""


@dataclass(frozen=True, slots=True)
class SubmitEffects:
    """Connections and clients that a submit uses."""

    database: Database
    ledger: Ledger
    queue: Queue

    @classmethod
    def connect(cls, settings: SubmitSettings) -> Self:
        """Build them from the settings; each connects at its first use."""
        ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
        return cls(Database(settings.database), ledger, Queue(settings.run_queue_url))


@dataclass(frozen=True, slots=True)
class Submitted:
    """An accepted run, new or known, with the figures of the response's headers."""

    run: Run
    costs: Costs
    rate: RateState
    replayed: bool

    @property
    def outcome(self) -> str:
        """As the metric of submits names it."""
        return "REPLAYED" if self.replayed else "ACCEPTED"

    def headers(self) -> dict[str, str]:
        """The headers of the response (RUN-13, RUN-14)."""
        replayed = {"Idempotent-Replayed": "true" if self.replayed else "false"}
        return {**self.costs.headers(), **self.rate.headers(), **replayed}


def submit(request: SubmitRequest, effects: SubmitEffects) -> Submitted:
    """Accept a run once per idempotency key. Raises RunsError, LedgerError and DependencyUnavailable."""
    admitted = _admit(request, effects)
    known = _known_run(request, admitted, effects)
    if known is not None:
        return _submitted(compensations.replayable(known, request, admitted), admitted, replayed=True)
    if isinstance(admitted.outcome, Mapped):
        # The mapping leads to a run that was never queued (RUN-8) or is past its retention: the key is free.
        stale = admitted.outcome
        admission.forget(effects.ledger, request, stale.run_id, stale.payload_hash)
        admitted = _admit(request, effects)
    match admitted.outcome:
        case Admitted():
            return _accept(request, admitted, effects)
        case admission.RateLimited():
            raise admitted.error(errors.RateLimited)
        case admission.InsufficientBudget():
            raise admitted.error(errors.InsufficientBudget)
        case Mapped(payload_hash=other) | Locked(payload_hash=other):
            conflicts = other != request.payload_hash
            raise admitted.error(errors.IdempotencyConflict if conflicts else errors.IdempotencyInProgress)
        case _:
            assert_never(admitted.outcome)


def _admit(request: SubmitRequest, effects: SubmitEffects) -> Admission:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return admission.admit(effects.ledger, request, new_id(), now_ms)


def _known_run(request: SubmitRequest, admitted: Admission, effects: SubmitEffects) -> Run | None:
    """The live run of the key, if Redis gives a reason to look for one.

    An insufficient budget is a reason: a repeated submit whose mapping was lost needs no money, since its run has it
    already. Raises LedgerLost if the budget is insufficient because Redis lost it: that is temporary (D2).
    """
    if not isinstance(admitted.outcome, Mapped | Locked | admission.InsufficientBudget):
        return None
    with effects.database.connection() as connection:
        known = submit_store.find_by_key(connection, request.tenant_id, request.idempotency_key)
        is_empty = isinstance(admitted.outcome, admission.InsufficientBudget) and admitted.balance_usd_micros == 0
        if known is None and is_empty and is_lost(connection, effects.ledger, request.tenant_id):
            raise LedgerLost("the balance is gone")
    return known


def _accept(request: SubmitRequest, admitted: Admission, effects: SubmitEffects) -> Submitted:
    try:
        run = effects.database.using(submit_store.insert, request, admitted.run_id)
    except (errors.DuplicateKey, errors.SwitchedOff) as refused:
        admitted = compensations.give_back(request, admitted, effects.ledger)
        known = compensations.run_of_taken_key(request, admitted, refused, effects.database)
        return _submitted(known, admitted, replayed=True)
    except PostgresNotReached:
        compensations.give_back(request, admitted, effects.ledger)
        raise
    # Any other PostgresUnavailable leaves open whether the row exists, so nothing is given back: without the row,
    # reconcile refunds the orphan; with it, reconcile sends the message.
    try:
        admission.remember(effects.ledger, request, run)
    except RedisUnavailable:
        _LOG.warning("idempotency mapping not written; only the unique index guards the key", extra={"run_id": run.id})
    _enqueue(request, admitted, run, effects)
    return _submitted(run, admitted, replayed=False)


def _enqueue(request: SubmitRequest, admitted: Admission, run: Run, effects: SubmitEffects) -> None:
    """Send the run's message. Raises EnqueueFailed after its reservation was refunded."""
    try:
        effects.queue.send(RunMessage.of(run, datetime.now(UTC)).model_dump_json())
    except QueueUnavailable as error:
        ends = FinalizeEffects(effects.database, effects.ledger)
        compensations.give_up(request, admitted, run, ends, error)
        return
    try:
        effects.database.using(submit_store.mark_enqueued, run)
    except PostgresUnavailable:
        _LOG.warning("enqueued_at not written; reconcile will send once more", extra={"run_id": run.id})


def _submitted(run: Run, admitted: Admission, *, replayed: bool) -> Submitted:
    fields = run.log_fields(version_before=run.version if replayed else None)
    _LOG.info("run accepted", extra=fields | {"replayed": replayed})
    return Submitted(run, Costs.of(run, admitted.balance_usd_micros), admitted.rate, replayed)
