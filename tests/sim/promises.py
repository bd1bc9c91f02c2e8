"""What must hold once a schedule has come to rest (RUN-19, RUN-24, D2–D5): each broken promise as a sentence."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from dpp.money.keys import KeySpace
from dpp.money.micros import parse_usd
from dpp.packs.contract import PackResult, PackSuccess
from tests.sim.faults import Fault
from tests.sim.model_postgres import Tables, is_waiting
from tests.sim.model_redis import Keys
from tests.sim.schema import Row
from tests.sim.simulation import Accepted, Simulation

_KEYS = KeySpace()
_REAPED_AT_ONCE = 3
"""The version of a run that was leased, claimed and committed, and its claim never taken over."""


class Ended(Protocol):
    """What a schedule has come to: a simulation's models, or real servers as tests/crash reads them."""

    tables: Tables
    keys: Keys
    objects: dict[str, bytes]
    accepted: list[Accepted]
    started: Counter[str]
    answers: dict[str, list[PackResult]]
    writes_lost: int
    flushes: int

    def drift_of(self, tenant_id: str) -> int:
        """What the platform's own audit finds, in micros."""


def broken(sim: Ended) -> list[str]:
    """Every promise that this schedule broke."""
    return [
        *_money(sim),
        *_work(sim),
        *_books(sim),
        *_clients(sim),
        *_objects(sim),
        *_switches(sim),
    ]


def broken_before_the_calm(sim: Simulation) -> Iterator[str]:
    """What must hold once everybody is done and before anybody mends: nothing waits for nobody, the newest decides."""
    for wanted in sim.tables.decisions:
        stands = sim.tables.switches[wanted.scope or "*"]
        if (stands["decided_at"], stands["decision_id"]) < (wanted.decided_at, wanted.decision_id):
            yield f"decision {str(wanted.decision_id)[:8]} was undone by an older one"
    if sim.knows(Fault.MESSAGE_LOST):
        return
    out = {json.loads(message.body)["run_id"] for message in (*sim.messages.waiting, *sim.messages.dead)}
    for run_id, row in sim.tables.runs.items():
        # Parked or not, enabled or not: reconcile sends what was never sent, and a worker has what was (D5).
        if is_waiting(row) and row["enqueued_at"] is not None and str(run_id) not in out:
            yield f"run {str(run_id)[:8]} counts as sent, and no message of it is out"


def _money(sim: Ended) -> Iterator[str]:
    for row in sim.tables.runs.values():
        name, money = str(row["run_id"])[:8], row["money_state"]
        if money == "DISPUTED":
            yield f"run {name} is DISPUTED: {row['last_error_detail']}"
            continue
        if row["finalize_stage"] != "COMMITTED":
            yield f"run {name} never ended: {row['status']} · {money} · {row['finalize_stage']}"
            continue
        yield from _charge(sim, name, row)
        yield from _receipt(sim, name, row)


def _work(sim: Ended) -> Iterator[str]:
    for run_id, times in sim.started.items():
        if times > 1:
            yield f"run {run_id[:8]} was worked on {times} times"
    for row in sim.tables.runs.values():
        reaped = (row["last_error_reason_code"], row["version"]) == ("WORKER_TIMEOUT", _REAPED_AT_ONCE)
        if reaped and row["lease_expires_at"] >= row["finalize_claimed_at"]:
            yield f"run {str(row['run_id'])[:8]} was taken from a worker whose lease had not run out"


def _switches(sim: Ended) -> Iterator[str]:
    """Nothing begins while it is disabled (TIX-1), and nothing is given up before its hour (RUN-21)."""
    for run_id, how in sim.tables.begun:
        yield f"run {str(run_id)[:8]} was {how} while its execution was disabled"
    for row in sim.tables.runs.values():
        if row["last_error_reason_code"] == "RESERVATION_EXPIRED":
            waited = row["finalize_claimed_at"] - row["created_at"]
            if waited < timedelta(hours=1):
                yield f"run {str(row['run_id'])[:8]} was given up after {waited}"


def _charge(sim: Ended, name: str, row: Row) -> Iterator[str]:
    charge, reserved = row["actual_cost_usd_micros"], row["reservation_max_cost_usd_micros"]
    if charge > reserved:
        yield f"run {name} was charged {charge}, above its reservation of {reserved}"
    match row["status"], row["money_state"]:
        case "COMPLETED", _:
            answers = sim.answers.get(str(row["run_id"]), [])
            costs = {min(a.cost_usd_micros, reserved) for a in answers if isinstance(a, PackSuccess)}
            if charge not in costs:
                yield f"run {name} was charged {charge}, its pack asked for {sorted(costs)}"
        case _, "SETTLED":
            if charge != min(row["minimum_fee_usd_micros"], reserved):
                yield f"run {name} failed and was charged {charge}, not the minimum fee"
        case _:
            if charge or row["lease_token"] is not None:
                yield f"run {name} was refunded after it was worked on, or charged {charge}"


def _receipt(sim: Ended, name: str, row: Row) -> Iterator[str]:
    if sim.writes_lost or sim.flushes:
        return
    receipt = sim.keys.hashes.get(_KEYS.receipt(row["tenant_id"], str(row["run_id"])))
    said = receipt and (receipt["kind"], int(receipt["charge_usd_micros"]))
    if said != (row["money_state"], row["actual_cost_usd_micros"]):
        yield f"run {name} is {row['money_state']}, charged {row['actual_cost_usd_micros']}; its receipt: {said}"


def _books(sim: Ended) -> Iterator[str]:
    if not (sim.writes_lost or sim.flushes):
        yield from _drifts(sim)
    for tenant in sim.tables.tenants:
        rows = [row for row in sim.tables.runs.values() if row["tenant_id"] == tenant]
        amounts = sim.keys.hashes.get(_KEYS.reservation_amounts(tenant), {})
        ages = sim.keys.scores.get(_KEYS.reservation_ages(tenant), {})
        if set(amounts) != set(ages):
            yield f"{tenant}: the index holds amounts of {sorted(amounts)}, ages of {sorted(ages)}"
        for run_id in sorted(amounts):
            yield f"{tenant}: {amounts[run_id]} stay reserved for {run_id[:8]}, which is over or never was"
        given = sum(amount for of, amount in sim.tables.credits.values() if of == tenant)
        charged = sum(row["actual_cost_usd_micros"] for row in rows if row["money_state"] == "SETTLED")
        balance = int(sim.keys.strings.get(_KEYS.balance(tenant), "0"))
        if balance != given - charged:
            yield f"{tenant}: balance {balance} is not {given} given − {charged} charged"
        if drift := sim.drift_of(tenant):
            yield f"{tenant}: the audit sees a drift of {drift}"


def _drifts(sim: Ended) -> Iterator[str]:
    """Reconcile mends what drifts, which must not hide that something made it drift.

    A credit whose operator died between its row and the balance is meant to be found so; nothing else is.
    """
    for rebuild in sim.tables.rebuilds:
        if rebuild["reason"] != "DRIFT":
            continue
        tenant, lost_credits = rebuild["tenant_id"], set[int]()
        for of, amount in sim.tables.credits.values():
            if of == tenant:
                lost_credits |= {amount, *(known + amount for known in lost_credits)}
        mended = rebuild["balance_usd_micros"] - (rebuild["before_usd_micros"] or 0)
        if mended not in lost_credits or rebuild["missing_reservations"]:
            yield f"{tenant}: the ledger had to be mended though Redis lost nothing: {rebuild}"


def _clients(sim: Ended) -> Iterator[str]:
    runs = sim.tables.runs
    for accepted in sim.accepted:
        row = runs.get(accepted.run_id)
        if row is None:
            yield f"{accepted.client} was answered 202 for a run that isn't there"
        elif (row["tenant_id"], row["idempotency_key"], row["payload_hash"]) != (
            accepted.tenant_id,
            accepted.idempotency_key,
            accepted.payload_hash,
        ):
            yield f"{accepted.client} was answered 202 with another's run"
    for of in {(a.tenant_id, a.idempotency_key) for a in sim.accepted}:
        # A run that could not be queued frees its key (RUN-8): only those that were, or may be, count.
        kept = [row for row in runs.values() if (row["tenant_id"], row["idempotency_key"]) == of]
        if sum(row["idempotency_released_at"] is None for row in kept) > 1:
            yield f"{of} has more than one living run"
        worked = [row for row in kept if row["lease_token"] is not None]
        if len(worked) > 1:
            yield f"{of} was worked on {len(worked)} times"


def _objects(sim: Ended) -> Iterator[str]:
    pointed = {row["result_key"]: row for row in sim.tables.runs.values() if row["result_key"] is not None}
    for key, body in sim.objects.items():
        row = pointed.get(key)
        if row is None:
            yield f"nobody points at the object {key}"
        else:
            yield from _object(row, body)
    for key, row in pointed.items():
        if key not in sim.objects:
            yield f"run {str(row['run_id'])[:8]} points at an object that isn't there"


def _object(row: Row, body: bytes) -> Iterator[str]:
    name, document = str(row["run_id"])[:8], json.loads(body)
    if hashlib.sha256(body).hexdigest() != row["result_sha256"]:
        yield f"run {name}: its object is not the one that it points at"
    if document["status"] != row["status"]:
        yield f"run {name} is {row['status']}, its envelope says {document['status']}"
    if parse_usd(document["cost"]["used_usd"]) != row["actual_cost_usd_micros"]:
        yield f"run {name} was charged {row['actual_cost_usd_micros']}, its envelope says otherwise"
