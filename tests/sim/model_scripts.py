"""The Lua scripts as Python, found by the digest by which the real code calls them.

test_conformance.py proves on a real Valkey that each does what its script does, reply by reply and key by key.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpp.money import ledger
from dpp.platform.db.redis import Script
from dpp.runs import admission, lease
from tests.sim.model_redis import Keys

type Model = Callable[[Keys, Sequence[str], Sequence[str]], list[str]]

MAX_AMOUNT = 2**53 - 1
_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_LOCK = re.compile(r" ([0-9A-Fa-f]+)$")
_PARTS_A_TOKEN = 60_000
_BUCKET_TTL_MS = 120_000


def _amount_of(text: str) -> int | None:
    if not _DIGITS.fullmatch(text) or int(text) > MAX_AMOUNT:
        return None
    return int(text)


def _balance(db: Keys, key: str) -> str:
    return db.strings.get(key, "0")


def reserve(
    db: Keys, keys: Sequence[str], tenant_id: str, run_id: str, amount_text: str, *times: str
) -> list[str]:
    """`reserve` of ledger.lua; `times` are created_at_ms and ttl_ms."""
    amount = _amount_of(amount_text)
    if not amount:
        return ["ERR_BAD_AMOUNT"]
    if db.exists(keys[1]) or db.exists(keys[2]) or db.hget(keys[4], run_id) is not None:
        return ["ERR_ALREADY_RESERVED"]
    balance = _balance(db, keys[0])
    if int(balance) < amount:
        return ["ERR_INSUFFICIENT", balance]
    created_at_ms, ttl_ms = times
    db.zadd(keys[3], run_id, db.now_ms)
    left = db.increase(keys[0], -amount)
    db.hset(keys[4], {run_id: str(amount)})
    db.hset(
        keys[1],
        {"tenant_id": tenant_id, "reserved_usd_micros": str(amount), "created_at_ms": created_at_ms},
    )
    db.expire(keys[1], int(ttl_ms))
    return ["OK", left]


def close(
    db: Keys, keys: Sequence[str], run_id: str, charge_text: str, *, kind: str, ttl_ms: str
) -> list[str]:
    """`close` of ledger.lua."""
    charge = _amount_of(charge_text)
    if charge is None:
        return ["ERR_BAD_AMOUNT"]
    receipt = db.hashes.get(keys[2])
    if receipt is not None and "charge_usd_micros" in receipt:
        done = [receipt["charge_usd_micros"], receipt["refund_usd_micros"]]
        return ["OK", *done, _balance(db, keys[0]), receipt["kind"], "REPEATED"]
    reserved = _amount_of(db.hget(keys[4], run_id) or "")
    if reserved is None:
        return ["ERR_NO_RESERVE"]
    charge = min(charge, reserved)
    refund = str(reserved - charge)
    db.zrem(keys[3], run_id)
    left = db.increase(keys[0], reserved - charge)
    db.hdel(keys[4], run_id)
    db.delete(keys[1])
    db.hset(keys[2], {"charge_usd_micros": str(charge), "refund_usd_micros": refund, "kind": kind})
    db.expire(keys[2], int(ttl_ms))
    return ["OK", str(charge), refund, left, kind, "NEW"]


def _reserve(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, tenant_id, amount, created_at_ms, ttl_ms = args
    return reserve(db, keys, tenant_id, run_id, amount, created_at_ms, ttl_ms)


def _settle(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, charge, ttl_ms = args
    return close(db, keys, run_id, charge, kind="SETTLED", ttl_ms=ttl_ms)


def _refund_full(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, ttl_ms = args
    return close(db, keys, run_id, "0", kind="REFUNDED", ttl_ms=ttl_ms)


def _credit(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    credit_id, amount_text, opens = args
    amount = _amount_of(amount_text)
    if not amount:
        return ["ERR_BAD_AMOUNT"]
    balance = _balance(db, keys[0])
    if opens != "1" and keys[0] not in db.strings:
        return ["ERR_NO_BALANCE"]
    if credit_id in db.sets.get(keys[1], {}):
        return ["OK", balance, "REPEATED"]
    if int(balance) + amount > MAX_AMOUNT:
        return ["ERR_TOO_LARGE", balance]
    left = db.increase(keys[0], amount)
    db.sets.setdefault(keys[1], {})[credit_id] = None
    return ["OK", left, "NEW"]


def take_token(db: Keys, key: str, limit_text: str) -> tuple[int, int, int]:
    """`take_token` of rate_limit.lua: allowed, whole tokens left, seconds until full."""
    limit = int(limit_text)
    capacity = parts = limit * _PARTS_A_TOKEN
    bucket = db.hashes.get(key)
    if bucket is not None and "parts" in bucket:
        elapsed = max(0, db.now_ms - int(bucket["at_ms"]))
        parts = min(capacity, int(bucket["parts"]) + elapsed * limit)
    allowed = 0
    if parts >= _PARTS_A_TOKEN:
        allowed = 1
        parts -= _PARTS_A_TOKEN
    db.hset(key, {"parts": str(parts), "at_ms": str(db.now_ms)})
    db.expire(key, _BUCKET_TTL_MS)
    return allowed, parts // _PARTS_A_TOKEN, math.ceil((capacity - parts) / limit / 1000)


@dataclass(slots=True)
class _Reckoned:
    """What `reckon` of books.lua returns."""

    balance: int
    in_flight: int
    missing: int
    to_enter: dict[str, str]
    to_forget: list[str]


def _reckon(db: Keys, keys: Sequence[str], told: Any) -> _Reckoned:
    known = {str(run_id) for run_id in told["closed"]}
    to_enter: dict[str, str] = {}
    left = int(told["credits_minus_charges"])
    for (run_id, reserved), receipt in zip(told["open"], keys[4:], strict=True):
        known.add(run_id)
        charged = db.hget(receipt, "charge_usd_micros")
        left -= int(charged or reserved)
        if charged is None:
            to_enter[run_id] = reserved
    entered = db.hashes.get(keys[2], {})
    in_flight = sum(int(amount) for run_id, amount in entered.items() if run_id not in known)
    to_forget = [run_id for run_id in entered if run_id in known and run_id not in to_enter]
    missing = sum(run_id not in entered for run_id in to_enter)
    return _Reckoned(left - in_flight, in_flight, missing, to_enter, to_forget)


def _rebuild(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    balance, ages, amounts, applied, *_ = keys
    if db.strings.get(balance, "") != args[1]:
        return ["ERR_MOVED"]
    told = json.loads(args[0])
    books = _reckon(db, keys, told)
    for run_id in books.to_forget:
        db.hdel(amounts, run_id)
        db.zrem(ages, run_id)
    for run_id, reserved in books.to_enter.items():
        db.hset(amounts, {run_id: reserved})
        if run_id not in db.scores.get(ages, {}):
            db.zadd(ages, run_id, db.now_ms)
    for credit_id, _ in told["credits"]:
        db.sets.setdefault(applied, {})[credit_id] = None
    db.strings[balance] = str(books.balance)
    db.expires_at_ms.pop(balance, None)
    return ["OK", db.strings[balance], str(books.in_flight), str(books.missing)]


def _measure(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    if db.strings.get(keys[0], "") != args[1]:
        return ["ERR_MOVED"]
    told = json.loads(args[0])
    books = _reckon(db, keys, told)
    applied = db.sets.get(keys[3], {})
    on_its_way = sum(int(amount) for credit_id, amount in told["credits"] if credit_id not in applied)
    return ["OK", str(books.balance - on_its_way), str(books.in_flight), str(books.missing)]


def _receipts(db: Keys, keys: Sequence[str], _args: Sequence[str]) -> list[str]:
    said = [db.hashes.get(key, {}).get(name, "") for key in keys for name in ("kind", "charge_usd_micros")]
    return ["OK", *said]


def _admit(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, tenant_id, amount, created_at_ms, ttl_ms, payload_hash, lock_ttl_ms, limit = args
    balance, mapping, lock = keys[0], keys[6], keys[7]
    allowed, remaining, reset_seconds = take_token(db, keys[5], limit)
    head = [str(remaining), str(reset_seconds)]
    if not allowed:
        return [*head, "RATE_LIMITED", _balance(db, balance)]
    known = db.hashes.get(mapping, {})
    if "run_id" in known:
        return [*head, "MAPPED", known["run_id"], known["payload_hash"], _balance(db, balance)]
    mine = f"{run_id} {payload_hash}"
    holder = db.strings.get(lock)
    if holder is not None and holder != mine:
        found = _LOCK.search(holder)
        return [*head, "LOCKED", found.group(1) if found else "", _balance(db, balance)]
    db.set(lock, mine, int(lock_ttl_ms))
    reserved = reserve(db, keys[:5], tenant_id, run_id, amount, created_at_ms, ttl_ms)
    if reserved[0] == "ERR_ALREADY_RESERVED":
        return [*head, "OK", _balance(db, balance)]
    if reserved[0] != "OK":
        db.delete(lock)
        return [*head, reserved[0], reserved[1] if len(reserved) > 1 else _balance(db, balance)]
    return [*head, "OK", reserved[1]]


def _remember(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, payload_hash, created_at_ms, ttl_ms = args
    mapped = {"run_id": run_id, "payload_hash": payload_hash, "created_at_ms": created_at_ms}
    db.hset(keys[0], mapped)
    db.expire(keys[0], int(ttl_ms))
    _unlock(db, keys[1], run_id, payload_hash)
    return ["OK"]


def _forget(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    run_id, payload_hash = args
    if db.hget(keys[0], "run_id") == run_id:
        db.delete(keys[0])
    _unlock(db, keys[1], run_id, payload_hash)
    return ["OK"]


def _unlock(db: Keys, lock: str, run_id: str, payload_hash: str) -> None:
    if db.strings.get(lock) == f"{run_id} {payload_hash}":
        db.delete(lock)


def _observe(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    allowed, remaining, reset_seconds = take_token(db, keys[0], args[0])
    return [str(remaining), str(reset_seconds), str(allowed), _balance(db, keys[1])]


def _extend_lease(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    if db.strings.get(keys[0]) != args[0]:
        return ["ERR_NOT_HELD"]
    db.expire(keys[0], int(args[1]))
    return ["OK"]


def _release_lease(db: Keys, keys: Sequence[str], args: Sequence[str]) -> list[str]:
    if db.strings.get(keys[0]) != args[0]:
        return ["ERR_NOT_HELD"]
    db.delete(keys[0])
    return ["OK"]


def _by_digest(scripts: dict[str, tuple[Script, Model]]) -> dict[str, tuple[str, Model]]:
    return {script.sha1: (name, model) for name, (script, model) in scripts.items()}


SCRIPTS: dict[str, tuple[str, Model]] = _by_digest(
    {
        "reserve": (ledger._RESERVE, _reserve),
        "settle": (ledger._SETTLE, _settle),
        "refund_full": (ledger._REFUND_FULL, _refund_full),
        "credit": (ledger._CREDIT, _credit),
        "rebuild": (ledger._REBUILD, _rebuild),
        "measure": (ledger._MEASURE, _measure),
        "receipts": (ledger._RECEIPTS, _receipts),
        "admit": (admission._ADMIT, _admit),
        "remember": (admission._REMEMBER, _remember),
        "forget": (admission._FORGET, _forget),
        "observe": (admission._OBSERVE, _observe),
        "extend_lease": (lease._EXTEND, _extend_lease),
        "release_lease": (lease._RELEASE, _release_lease),
    }
)
"""Digest -> the script's name and its model."""
SOURCES: dict[str, str] = {
    script.source: script.sha1
    for module in (ledger, admission, lease)
    for script in vars(module).values()
    if isinstance(script, Script)
}
"""Source -> digest, for EVAL."""
