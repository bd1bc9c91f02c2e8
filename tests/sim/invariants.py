"""The invariants of metered runs (RUN-19, RUN-24, D2–D5), checked after the recovery. Each violation is a sentence."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Protocol

from dpp.money.keys import KeySpace
from dpp.money.micros import parse_usd
from dpp.packs.contract import PackResult, PackSuccess
from tests.sim.database import Row
from tests.sim.faults import Fault
from tests.sim.keys import Keys
from tests.sim.simulation import Accepted, Simulation

_KEYS = KeySpace()
_REAPED_AT_ONCE = 3
"""The version of a run that was leased, claimed and committed without a takeover."""


class Ended(Protocol):
    """The final state: of a simulation, or of real servers as tests/crash reads them."""

    keys: Keys
    objects: dict[str, bytes]
    accepted: list[Accepted]
    started: Counter[str]
    answers: dict[str, list[PackResult]]
    writes_lost: int
    flushes: int

    def rows(self, table: str) -> list[Row]:
        """All rows of a table."""

    def drift_of(self, tenant_id: str) -> int:
        """The drift that the platform's own audit finds, in micros."""


def broken(sim: Ended) -> list[str]:
    """Every broken invariant."""
    return [*_money(sim), *_work(sim), *_books(sim), *_clients(sim), *_objects(sim), *_switches(sim)]


def broken_before_recovery(sim: Simulation) -> Iterator[str]:
    """Check the invariants that hold before the recovery, when all actors are done."""
    for decision in sim.database.decisions:
        current = next(row for row in sim.rows("execution_switches") if row["scope"] == (decision.scope or "*"))
        if (current["decided_at"], current["decision_id"]) < (decision.decided_at, decision.decision_id):
            yield f"decision {str(decision.decision_id)[:8]} was undone by an older one"
    if sim.has(Fault.MESSAGE_LOST):
        return
    sent = {json.loads(message.body)["run_id"] for message in (*sim.messages.waiting, *sim.messages.dead)}
    for row in sim.rows("runs"):
        run_id = str(row["run_id"])
        # Reconcile sends a run that was never sent, or was parked; a worker receives any other (D5).
        is_waiting = row["status"] == "QUEUED" and row["finalize_stage"] is None
        if is_waiting and row["enqueued_at"] is not None and run_id not in sent:
            yield f"run {run_id[:8]} is recorded as sent, and there is no message for it"


def _money(sim: Ended) -> Iterator[str]:
    for row in sim.rows("runs"):
        name, money = str(row["run_id"])[:8], row["money_state"]
        if money == "DISPUTED":
            yield f"run {name} is DISPUTED: {row['last_error_detail']}"
            continue
        if row["finalize_stage"] != "COMMITTED":
            yield f"run {name} has not ended: {row['status']} · {money} · {row['finalize_stage']}"
            continue
        yield from _charge(sim, name, row)
        yield from _receipt(sim, name, row)


def _work(sim: Ended) -> Iterator[str]:
    for run_id, times in sim.started.items():
        if times > 1:
            yield f"run {run_id[:8]} was executed {times} times"
    for row in sim.rows("runs"):
        reaped = (row["last_error_reason_code"], row["version"]) == ("WORKER_TIMEOUT", _REAPED_AT_ONCE)
        if reaped and row["lease_expires_at"] >= row["finalize_claimed_at"]:
            yield f"run {str(row['run_id'])[:8]} was reaped although its lease had not expired"


def _switches(sim: Ended) -> Iterator[str]:
    """No run begins while it is disabled (TIX-1), and none expires before its hour (RUN-21)."""
    for began in sim.rows("begun_while_disabled"):
        yield f"run {str(began['run_id'])[:8]} was {began['how']} while its execution was disabled"
    for row in sim.rows("runs"):
        if row["last_error_reason_code"] == "RESERVATION_EXPIRED":
            waited = row["finalize_claimed_at"] - row["created_at"]
            if waited < timedelta(hours=1):
                yield f"run {str(row['run_id'])[:8]} was swept after {waited}"


def _charge(sim: Ended, name: str, row: Row) -> Iterator[str]:
    charge, reserved = row["actual_cost_usd_micros"], row["reservation_max_cost_usd_micros"]
    if charge > reserved:
        yield f"run {name} was charged {charge}, more than its reservation of {reserved}"
    match row["status"], row["money_state"]:
        case "COMPLETED", _:
            answers = sim.answers.get(str(row["run_id"]), [])
            costs = {min(a.cost_usd_micros, reserved) for a in answers if isinstance(a, PackSuccess)}
            if charge not in costs:
                yield f"run {name} was charged {charge}; its pack cost {sorted(costs)}"
        case _, "SETTLED":
            if charge != min(row["minimum_fee_usd_micros"], reserved):
                yield f"run {name} failed and was charged {charge}, not the minimum fee"
        case _:
            if charge or row["lease_token"] is not None:
                yield f"run {name} was refunded after it had been leased, or was charged {charge}"


def _receipt(sim: Ended, name: str, row: Row) -> Iterator[str]:
    if sim.writes_lost or sim.flushes:
        return
    receipt = sim.keys.hash(_KEYS.receipt(row["tenant_id"], str(row["run_id"])))
    closed = (receipt["kind"], int(receipt["charge_usd_micros"])) if receipt else None
    if closed != (row["money_state"], row["actual_cost_usd_micros"]):
        yield f"run {name} is {row['money_state']}, charged {row['actual_cost_usd_micros']}; its receipt: {closed}"


def _books(sim: Ended) -> Iterator[str]:
    if not (sim.writes_lost or sim.flushes):
        yield from _drifts(sim)
    for tenant in [row["tenant_id"] for row in sim.rows("tenants")]:
        rows = [row for row in sim.rows("runs") if row["tenant_id"] == tenant]
        amounts = sim.keys.hash(_KEYS.reservation_amounts(tenant))
        ages = sim.keys.scores(_KEYS.reservation_ages(tenant))
        if set(amounts) != set(ages):
            yield f"{tenant}: the index holds amounts of {sorted(amounts)}, ages of {sorted(ages)}"
        for run_id in sorted(amounts):
            yield f"{tenant}: {amounts[run_id]} stays reserved for run {run_id[:8]}, which has ended or does not exist"
        given = sum(_credits(sim, tenant))
        charged = sum(row["actual_cost_usd_micros"] for row in rows if row["money_state"] == "SETTLED")
        balance = int(sim.keys.text(_KEYS.balance(tenant)) or "0")
        if balance != given - charged:
            yield f"{tenant}: balance {balance} is not {given} credited − {charged} charged"
        if drift := sim.drift_of(tenant):
            yield f"{tenant}: the audit finds a drift of {drift}"


def _drifts(sim: Ended) -> Iterator[str]:
    """Reconcile repairs drift, which must not hide that something caused it.

    Only one cause is expected: an operator's process died between a credit's row and the balance.
    """
    for rebuild in sim.rows("ledger_rebuilds"):
        if rebuild["reason"] != "DRIFT":
            continue
        tenant, lost_credits = rebuild["tenant_id"], set[int]()
        for amount in _credits(sim, tenant):
            lost_credits |= {amount, *(known + amount for known in lost_credits)}
        repaired = rebuild["balance_usd_micros"] - (rebuild["before_usd_micros"] or 0)
        if repaired not in lost_credits or rebuild["missing_reservations"]:
            yield f"{tenant}: the ledger was repaired although Redis had lost nothing: {rebuild}"


def _credits(sim: Ended, tenant: str) -> list[int]:
    rows = sim.rows("budget_credits")
    return [row["amount_usd_micros"] for row in rows if row["tenant_id"] == tenant]


def _clients(sim: Ended) -> Iterator[str]:
    runs = {row["run_id"]: row for row in sim.rows("runs")}
    for accepted in sim.accepted:
        row = runs.get(accepted.run_id)
        if row is None:
            yield f"{accepted.client} received 202 for a run that does not exist"
        elif (row["tenant_id"], row["idempotency_key"], row["payload_hash"]) != (
            accepted.tenant_id,
            accepted.idempotency_key,
            accepted.payload_hash,
        ):
            yield f"{accepted.client} received 202 for another client's run"
    for of in {(a.tenant_id, a.idempotency_key) for a in sim.accepted}:
        # A run that could not be queued releases its key (RUN-8) and does not count.
        kept = [row for row in runs.values() if (row["tenant_id"], row["idempotency_key"]) == of]
        if sum(row["idempotency_released_at"] is None for row in kept) > 1:
            yield f"{of} has more than one run"
        leased = [row for row in kept if row["lease_token"] is not None]
        if len(leased) > 1:
            yield f"{of} was executed {len(leased)} times"


def _objects(sim: Ended) -> Iterator[str]:
    pointed = {row["result_key"]: row for row in sim.rows("runs") if row["result_key"] is not None}
    for key, body in sim.objects.items():
        row = pointed.get(key)
        if row is None:
            yield f"no run refers to the object {key}"
        else:
            yield from _object(row, body)
    for key, row in pointed.items():
        if key not in sim.objects:
            yield f"run {str(row['run_id'])[:8]} refers to an object that does not exist"


def _object(row: Row, body: bytes) -> Iterator[str]:
    name, document = str(row["run_id"])[:8], json.loads(body)
    if hashlib.sha256(body).hexdigest() != row["result_sha256"]:
        yield f"run {name}: its object has another hash than its row"
    if document["status"] != row["status"]:
        yield f"run {name} is {row['status']}, its envelope says {document['status']}"
    if parse_usd(document["cost"]["used_usd"]) != row["actual_cost_usd_micros"]:
        yield f"run {name} was charged {row['actual_cost_usd_micros']}, its envelope has another cost"
