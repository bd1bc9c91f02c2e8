"""Deliberate bugs in the core, in the scripts and in the guards of the rows, each put in for as long as a block lasts.

A simulation that lets one of them pass would let the real one pass too (see test_mutations.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from unittest.mock import patch

from dpp.money.ledger import Closed, CloseKind, Ledger, NoReservation
from dpp.platform.errors import PostgresUnavailable
from dpp.runs import execute, finalize, store, submit
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs import reap, reconcile
from dpp.runs.jobs.reap import timed_out
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import Intent, Run
from dpp.runs.store import Guard
from tests.sim import model_postgres, model_scans, model_scripts
from tests.sim import model_switch as _registers_its_queries  # noqa: F401
from tests.sim.model_postgres import GUARDS, Answer, Params, Tables
from tests.sim.model_redis import Keys
from tests.sim.schema import Row

type Mutation = Callable[[], AbstractContextManager[object]]

_real_finish = finalize.finish
_real_find = store.find
_real_reserve, _real_close = model_scripts.reserve, model_scripts.close
_real_start, _real_claim, _real_disabled = GUARDS["start_processing"], GUARDS["claim"], GUARDS["disabled"]
_, _real_decide = model_postgres.MODELS[store.QUERIES["decide_execution"]]


@contextmanager
def _all_of(*patches: AbstractContextManager[Any]) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


# --- finalize ------------------------------------------------------------------------------------------------------


def settle_before_claim() -> AbstractContextManager[object]:
    """The money moves first, and whoever loses the claim has moved it too."""

    def finish(effects: FinalizeEffects, run: Run, guard: Guard, intent: Intent, **more: Any) -> Run | None:
        try:
            finalize._move_money(effects.ledger, run, intent)
        except NoReservation:
            return None
        return _real_finish(effects, run, guard, intent, **more)

    return patch.object(finalize, "finish", finish)


def upload_before_claim() -> AbstractContextManager[object]:
    """The order of the source document: a worker that lost its lease writes its object all the same."""

    def finish(effects: FinalizeEffects, run: Run, guard: Guard, intent: Intent, **more: Any) -> Run | None:
        if more.get("envelope") is not None:
            finalize._upload(effects, intent, more["envelope"])
        return _real_finish(effects, run, guard, intent, **more)

    return patch.object(finalize, "finish", finish)


def commit_without_the_money() -> AbstractContextManager[object]:
    """The run ends as settled, and the ledger is never told."""

    def move(_ledger: Ledger, claimed: Run, intent: Intent) -> Closed:
        kind = "SETTLED" if intent.money_state == MoneyState.SETTLED else "REFUNDED"
        refund = claimed.reservation_max_cost_usd_micros - intent.charge_usd_micros
        return Closed(CloseKind(kind), intent.charge_usd_micros, refund, 0, repeated=False)

    return patch.object(finalize, "_move_money", move)


def stuck_at_once() -> AbstractContextManager[object]:
    """A claim counts as stuck while its winner is still at work."""
    return _all_of(
        patch.object(finalize, "STUCK_AFTER_SECONDS", 0), patch.object(reconcile, "STUCK_AFTER_SECONDS", 0)
    )


def intend_again() -> AbstractContextManager[object]:
    """Reconcile makes up another intent instead of repeating the recorded one."""

    def finish_stuck(effects: Any, run: Run, now: datetime | None = None) -> Run | None:
        intent = timed_out(run) if run.status == Status.PROCESSING else run.intent
        return finalize.take_over(effects.ends, run, intent, now=now)

    return patch.object(reconcile, "finish_stuck", finish_stuck)


# --- the scripts ---------------------------------------------------------------------------------------------------


def drop_the_receipt() -> AbstractContextManager[object]:
    """A closed reservation leaves no trace."""

    def close(db: Keys, keys: Sequence[str], *args: Any, **more: Any) -> list[str]:
        done = _real_close(db, keys, *args, **more)
        db.delete(keys[2])
        return done

    return patch.object(model_scripts, "close", close)


def forget_the_index() -> AbstractContextManager[object]:
    """A reservation is not entered in the index that outlives it."""

    def reserve(db: Keys, keys: Sequence[str], tenant_id: str, run_id: str, *args: str) -> list[str]:
        done = _real_reserve(db, keys, tenant_id, run_id, *args)
        if done[0] == "OK":
            db.hdel(keys[4], run_id)
            db.zrem(keys[3], run_id)
        return done

    return patch.object(model_scripts, "reserve", reserve)


def forget_the_age() -> AbstractContextManager[object]:
    """A reservation is entered by its amount, not by its age: no job ever finds it."""

    def reserve(db: Keys, keys: Sequence[str], tenant_id: str, run_id: str, *args: str) -> list[str]:
        done = _real_reserve(db, keys, tenant_id, run_id, *args)
        db.zrem(keys[3], run_id)
        return done

    return patch.object(model_scripts, "reserve", reserve)


def reserve_twice() -> AbstractContextManager[object]:
    """A reservation asked for again, since its reply was lost, lowers the balance again."""

    def reserve(db: Keys, keys: Sequence[str], tenant_id: str, run_id: str, *args: str) -> list[str]:
        db.delete(keys[1])
        db.hdel(keys[4], run_id)
        return _real_reserve(db, keys, tenant_id, run_id, *args)

    return patch.object(model_scripts, "reserve", reserve)


def keep_the_rest() -> AbstractContextManager[object]:
    """Settling gives back a micro too little."""

    def close(db: Keys, keys: Sequence[str], *args: Any, **more: Any) -> list[str]:
        done = _real_close(db, keys, *args, **more)
        if done[-1] == "NEW" and done[2] != "0":
            db.increase(keys[0], -1)
        return done

    return patch.object(model_scripts, "close", close)


# --- the guards of the rows ----------------------------------------------------------------------------------------


def claim_by_id_alone() -> AbstractContextManager[object]:
    """The claim looks at neither version, state nor lease."""
    return patch.dict(GUARDS, {"claim": _anything})


def claim_what_is_claimed() -> AbstractContextManager[object]:
    """The claim forgets version and stage: a second claim takes over a living one."""

    def guard(row: Row, p: Params, at: datetime) -> bool:
        return _real_claim(row | {"version": p["version"], "finalize_stage": None}, p, at) and (
            row["finalize_stage"] != "COMMITTED"
        )

    return patch.dict(GUARDS, {"claim": guard})


def commit_by_id_alone() -> AbstractContextManager[object]:
    """The commit looks at neither version, token nor stage; both who claimed may commit."""
    return _all_of(patch.dict(GUARDS, {"commit": _anything}), stuck_at_once())


def lease_twice() -> AbstractContextManager[object]:
    """A doubled message leases a run that is being worked on: neither the look nor the write minds."""

    def guard(row: Row, p: Params, at: datetime) -> bool:
        same = {"version": p["version"], "status": "QUEUED"}
        return row["status"] == "PROCESSING" or _real_start(row | same, p, at)

    def find(connection: Any, tenant_id: str, run_id: Any) -> Run | None:
        found = _real_find(connection, tenant_id, run_id)
        return found and replace(found, status=Status.QUEUED)

    return _all_of(patch.object(store, "find", find), patch.dict(GUARDS, {"start_processing": guard}))


def reap_the_living() -> AbstractContextManager[object]:
    """The reaper looks at no lease's end, in its scan and in its write."""

    def careless(run: Run) -> Guard:
        return Guard(Status.PROCESSING, lease_token=run.lease_token)

    def scan(tables: Tables, p: Params, _now: datetime) -> Answer:
        return model_scans.page(
            tables, p, "lease_expires_at", lambda row: model_postgres.unclaimed(row, "PROCESSING")
        )

    return _all_of(
        patch.object(reap, "expired_lease", careless),
        patch.object(reconcile, "expired_lease", careless),
        patch.dict(
            model_postgres.MODELS, {store.QUERIES["page_expired_leases"]: ("page_expired_leases", scan)}
        ),
    )


def forget_the_unique_index() -> AbstractContextManager[object]:
    """Two runs may have one idempotency key."""
    return patch.object(model_postgres, "_living_run_of_key", lambda _tables, _p: None)


# --- submit and orphans --------------------------------------------------------------------------------------------


def refund_on_unknown_insert() -> AbstractContextManager[object]:
    """An insert whose reply was lost counts as one that never happened."""
    return patch.object(submit, "PostgresNotReached", PostgresUnavailable)


def refund_without_claim() -> AbstractContextManager[object]:
    """A run whose message may not have been taken is refunded at once, before anyone claims its end."""

    def give_up(run: Run, ticket: Any, admitted: Any, effects: Any, cause: Any) -> None:
        submit._give_back(ticket, admitted, effects)
        raise cause

    return patch.object(submit, "_give_up", give_up)


def orphans_at_once() -> AbstractContextManager[object]:
    """A reservation counts as orphaned while its submit is still at work."""
    return patch.object(reconcile.refund_orphans, "__defaults__", (0,))


def never_look_for_orphans() -> AbstractContextManager[object]:
    """What a crash between reserve and insert leaves is nobody's."""
    return patch.object(reconcile, "refund_orphans", _nothing)


def refund_whatever_is_old() -> AbstractContextManager[object]:
    """Reconcile refunds what is old without asking whether a run stands behind it."""
    return patch.dict(
        model_postgres.MODELS,
        {store.QUERIES["runs_among"]: ("runs_among", lambda _t, _p, _n: Answer(("run_id",)))},
    )


def charge_beyond_the_reservation() -> AbstractContextManager[object]:
    """A pack's cost is charged as it is."""
    return patch.object(execute, "charge_within", lambda cost, _reserved: cost)


# --- the switch of execution ---------------------------------------------------------------------------------------


def begin_while_disabled() -> AbstractContextManager[object]:
    """Neither insert nor lease asks the switch."""
    return patch.dict(GUARDS, {"disabled": lambda _switches, _of, _at: False})


def all_packs_are_no_pack() -> AbstractContextManager[object]:
    """The switch of all packs is forgotten."""

    def disabled(switches: Row, of: Params, at: datetime) -> bool:
        return _real_disabled({scope: row for scope, row in switches.items() if scope != "*"}, of, at)

    return patch.dict(GUARDS, {"disabled": disabled})


def skip_what_is_disabled() -> AbstractContextManager[object]:
    """The worker acknowledges the message of a run that it may not begin, and leaves the run as it is."""
    return patch.object(store, "park", lambda _connection, _run: None)


def mark_whatever_was_sent() -> AbstractContextManager[object]:
    """The mark of a submit slower than the worker takes a parked run for one whose message is still out."""
    return patch.dict(GUARDS, {"mark_enqueued": lambda row, _p, _at: row["enqueued_at"] is None})


def park_in_the_same_version() -> AbstractContextManager[object]:
    """The mark of a submit slower than the worker finds the version that it sent."""

    def park(tables: Tables, p: Params, now: datetime) -> Answer:
        row = tables.runs.get(p["run_id"])
        if row is None or not GUARDS["park"](row, p, now):
            return model_postgres._returning([])
        return model_postgres._returning([model_postgres._update(tables, row, {"enqueued_at": None})])

    return patch.dict(model_postgres.MODELS, {store.QUERIES["park"]: ("park", park)})


def the_last_to_come_decides() -> AbstractContextManager[object]:
    """An older decision undoes a newer one that was faster."""

    def decide(tables: Tables, p: Params, now: datetime) -> Answer:
        tables.switches.pop(str(p["scope"]), None)
        return _real_decide(tables, p, now)

    return patch.dict(
        model_postgres.MODELS, {store.QUERIES["decide_execution"]: ("decide_execution", decide)}
    )


def _anything(_row: Row, _p: Params, _at: datetime) -> bool:
    return True


def _nothing(*_: object) -> None:
    """Do nothing."""


MUTATIONS: tuple[Mutation, ...] = (
    settle_before_claim,
    upload_before_claim,
    commit_without_the_money,
    stuck_at_once,
    intend_again,
    drop_the_receipt,
    forget_the_index,
    forget_the_age,
    reserve_twice,
    keep_the_rest,
    claim_by_id_alone,
    claim_what_is_claimed,
    commit_by_id_alone,
    lease_twice,
    reap_the_living,
    forget_the_unique_index,
    refund_on_unknown_insert,
    refund_without_claim,
    orphans_at_once,
    never_look_for_orphans,
    refund_whatever_is_old,
    charge_beyond_the_reservation,
    begin_while_disabled,
    all_packs_are_no_pack,
    skip_what_is_disabled,
    mark_whatever_was_sent,
    park_in_the_same_version,
    the_last_to_come_decides,
)
"""All of them."""
