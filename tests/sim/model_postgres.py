"""The rows, and every named query that the use cases run on them, as Python, each guard included.

A query without a model here fails loudly. That each model does what its SQL does, test_conformance.py proves on a
real Postgres, call by call.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from psycopg import errors
from psycopg.types.json import Jsonb

from dpp.platform.db.sql import Queries
from dpp.runs import store
from dpp.runs.operations.switch import Switch
from tests.sim.schema import COLUMNS, Row, ViolatedUnique, check

type Params = Mapping[str, Any]
type Model = Callable[["Tables", Params, datetime], "Answer"]
type Guard = Callable[[Row, Params, datetime], bool]

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""When every simulation begins."""


@dataclass(slots=True)
class Tables:
    """One database."""

    tenants: dict[str, Row] = field(default_factory=dict)
    credits: dict[UUID, tuple[str, int]] = field(default_factory=dict)
    credited_at: dict[UUID, datetime] = field(default_factory=dict)
    audits: dict[str, Row] = field(default_factory=dict)
    rebuilds: list[Row] = field(default_factory=list)
    runs: dict[UUID, Row] = field(default_factory=dict)
    inputs: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    switches: dict[str, Row] = field(default_factory=dict)
    """The decision that stands, by scope."""
    decisions: list[Switch] = field(default_factory=list)
    """Those that an operator was told of as having reached the table."""
    begun: list[tuple[UUID, str]] = field(default_factory=list)
    """What was inserted or leased while its execution was disabled."""
    locks: dict[str, object] = field(default_factory=dict)
    """Who holds a lock until its transaction ends."""


@dataclass(slots=True)
class Answer:
    """What a statement answers."""

    columns: tuple[str, ...] = ()
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    rowcount: int = 0


MODELS: dict[str, tuple[str, Model]] = {}
"""SQL text -> the query's name and its model."""


def named(sql: str) -> tuple[str, Model]:
    """The model of a statement. Raises AssertionError for one that has none."""
    try:
        return MODELS[sql]
    except KeyError:
        raise AssertionError(f"tests/sim has no model of this query: {sql[:200]}") from None


def models(queries: Queries, name: str) -> Callable[[Model], Model]:
    """Register the model of a named query."""

    def register(model: Model) -> Model:
        MODELS[queries[name]] = (name, model)
        return model

    return register


@models(store.QUERIES, "insert_run")
def _insert_run(tables: Tables, p: Params, now: datetime) -> Answer:
    at = p["now"] or now
    if GUARDS["disabled"](tables.switches, p, at):
        return _returning([])
    row = dict.fromkeys(COLUMNS)
    row |= {
        "run_id": p["run_id"],
        "tenant_id": p["tenant_id"],
        "pack_type": str(p["pack_type"]),
        "profile_version": p["profile_version"],
        "status": "QUEUED",
        "money_state": "RESERVED",
        "version": 0,
        "idempotency_key": p["idempotency_key"],
        "payload_hash": p["payload_hash"],
        "reservation_max_cost_usd_micros": p["reserved"],
        "minimum_fee_usd_micros": p["minimum_fee"],
        "tokens_consumed": 0,
        "timebox_sec": p["timebox_sec"],
        "min_reliability_score": Decimal(str(p["min_reliability_score"])),
        "inline_result": p["inline_result"],
        "trace_id": p["trace_id"],
        "created_at": at,
        "updated_at": at,
        "retention_until": at + timedelta(days=30),
    }
    check(row)
    if row["run_id"] in tables.runs:
        raise ViolatedUnique("runs_pkey")
    if _living_run_of_key(tables, p) is not None:
        raise ViolatedUnique("runs_idempotency")
    if p["tenant_id"] not in tables.tenants:
        raise errors.ForeignKeyViolation
    inputs = p["inputs"]
    tables.runs[p["run_id"]] = row
    _note_begun(tables, row, "inserted")
    tables.inputs[p["run_id"]] = copy.deepcopy(inputs.obj if isinstance(inputs, Jsonb) else inputs)
    return _returning([row])


@models(store.QUERIES, "mark_enqueued")
def _mark_enqueued(tables: Tables, p: Params, now: datetime) -> Answer:
    row = tables.runs.get(p["run_id"])
    if row is None or not GUARDS["mark_enqueued"](row, p, now):
        return Answer()
    _update(tables, row, {"enqueued_at": p["now"] or now})
    return Answer(rowcount=1)


@models(store.QUERIES, "run")
def _run(tables: Tables, p: Params, _now: datetime) -> Answer:
    row = tables.runs.get(p["run_id"])
    return _returning([row] if row is not None and row["tenant_id"] == p["tenant_id"] else [])


@models(store.QUERIES, "run_of_owner")
def _run_of_owner(tables: Tables, p: Params, now: datetime) -> Answer:
    found = _run(tables, p, now)
    past = [(*row, tables.runs[p["run_id"]]["retention_until"] <= (p["now"] or now)) for row in found.rows]
    return Answer((*COLUMNS, "is_past_retention"), past, len(past))


@models(store.QUERIES, "run_of_key")
def _run_of_key(tables: Tables, p: Params, _now: datetime) -> Answer:
    row = _living_run_of_key(tables, p)
    return _returning([row] if row is not None else [])


@models(store.QUERIES, "run_with_inputs")
def _run_with_inputs(tables: Tables, p: Params, now: datetime) -> Answer:
    found = _run(tables, p, now)
    rows = [(*row, copy.deepcopy(tables.inputs.get(p["run_id"]))) for row in found.rows]
    return Answer((*COLUMNS, "inputs"), rows, len(rows))


@models(store.QUERIES, "start_processing")
def _start_processing(tables: Tables, p: Params, now: datetime) -> Answer:
    at = p["now"] or now
    seen = tables.runs.get(p["run_id"])
    if seen is not None and GUARDS["disabled"](tables.switches, seen, at):
        return _returning([])
    started = _cas(
        tables,
        "start_processing",
        p,
        now,
        lambda row: {
            "status": "PROCESSING",
            "lease_token": p["lease_token"],
            "lease_expires_at": at + timedelta(seconds=p["lease_ttl_seconds"]),
            "enqueued_at": row["enqueued_at"] or at,
        },
    )
    if started.rows:
        _note_begun(tables, tables.runs[p["run_id"]], "leased")
    return started


@models(store.QUERIES, "park")
def _park(tables: Tables, p: Params, now: datetime) -> Answer:
    return _cas(tables, "park", p, now, lambda _row: {"enqueued_at": None})


@models(store.QUERIES, "extend_lease")
def _extend_lease(tables: Tables, p: Params, now: datetime) -> Answer:
    at = p["now"] or now
    row = tables.runs.get(p["run_id"])
    if row is None or not GUARDS["extend_lease"](row, p, at):
        return Answer()
    _update(tables, row, {"lease_expires_at": at + timedelta(seconds=p["lease_ttl_seconds"])})
    return Answer(rowcount=1)


@models(store.QUERIES, "claim")
def _claim(tables: Tables, p: Params, now: datetime) -> Answer:
    claimed = _intent(p, now) | {"finalize_stage": "CLAIMED"}
    return _cas(tables, "claim", p, now, lambda _row: claimed)


@models(store.QUERIES, "reclaim")
def _reclaim(tables: Tables, p: Params, now: datetime) -> Answer:
    return _cas(tables, "reclaim", p, now, lambda _row: _intent(p, now))


@models(store.QUERIES, "of_finalize_token")
def _of_finalize_token(tables: Tables, p: Params, _now: datetime) -> Answer:
    row = tables.runs.get(p["run_id"])
    held = (
        row is not None
        and p["finalize_token"] is not None
        and (row["finalize_token"], row["finalize_stage"]) == (p["finalize_token"], p["stage"])
    )
    return _returning([row] if held and row is not None else [])


@models(store.QUERIES, "commit")
def _commit(tables: Tables, p: Params, now: datetime) -> Answer:
    return _cas(
        tables,
        "commit",
        p,
        now,
        lambda row: {
            "status": row["finalize_outcome"],
            "money_state": row["finalize_money_state"],
            "actual_cost_usd_micros": row["finalize_charge_usd_micros"],
            "finalize_stage": "COMMITTED",
            "idempotency_released_at": (p["now"] or now) if p["release_idempotency_key"] else None,
        },
    )


@models(store.QUERIES, "dispute")
def _dispute(tables: Tables, p: Params, now: datetime) -> Answer:
    disputed = {"money_state": "DISPUTED", "last_error_detail": p["detail"]}
    return _cas(tables, "dispute", p, now, lambda _row: disputed)


@models(store.QUERIES, "runs_among")
def _runs_among(tables: Tables, p: Params, _now: datetime) -> Answer:
    found = [tables.runs[i] for i in p["run_ids"] if i in tables.runs]
    return _returning([row for row in found if row["tenant_id"] == p["tenant_id"]])


def locks_taken(name: str, params: Params | None) -> str | None:
    """What a statement locks until its transaction ends."""
    match name:
        case "stop_writes_to_runs":
            return "runs"
        case "lock_credits" if params is not None:
            return f"tenant {params['tenant_id']}"
        case _:
            return None


WRITES_RUNS = frozenset(
    {
        "insert_run",
        "mark_enqueued",
        "start_processing",
        "park",
        "extend_lease",
        "claim",
        "reclaim",
        "commit",
        "dispute",
    }
)
"""What waits for a lock on `runs`."""


def _guard_of_queued(row: Row, p: Params, _at: datetime) -> bool:
    return row["version"] == p["version"] and unclaimed(row, "QUEUED")


def _guard_mark_enqueued(row: Row, p: Params, _at: datetime) -> bool:
    return row["version"] == p["version"] and row["enqueued_at"] is None


def is_disabled(switches: Row, of: Params, _at: datetime) -> bool:
    scopes = ("*", str(of["pack_type"]))
    return any(scope in switches and not switches[scope]["enabled"] for scope in scopes)


def _guard_extend_lease(row: Row, p: Params, at: datetime) -> bool:
    return (
        row["lease_token"] == p["lease_token"]
        and unclaimed(row, "PROCESSING")
        and row["lease_expires_at"] > at
    )


def is_no_lease(expires: datetime, at: datetime) -> bool:
    return expires < at or expires > at + timedelta(hours=1)


def _guard_claim(row: Row, p: Params, at: datetime) -> bool:
    expires = row["lease_expires_at"]
    return (
        row["version"] == p["version"]
        and row["status"] == p["expected_status"]
        and row["finalize_stage"] is None
        and row["lease_token"] == p["lease_token"]
        and (not p["lease_must_have_expired"] or (expires is not None and is_no_lease(expires, at)))
        and row["created_at"] <= at - timedelta(seconds=p["minimum_age_seconds"])
    )


def _guard_reclaim(row: Row, p: Params, at: datetime) -> bool:
    latest = at - timedelta(seconds=p["stuck_after_seconds"])
    return row["version"] == p["version"] and claimed(row) and row["finalize_claimed_at"] < latest


def _guard_of_holder(row: Row, p: Params, _at: datetime) -> bool:
    return row["version"] == p["version"] and row["finalize_token"] == p["finalize_token"] and claimed(row)


GUARDS: dict[str, Guard] = {
    "disabled": is_disabled,
    "mark_enqueued": _guard_mark_enqueued,
    "start_processing": _guard_of_queued,
    "park": _guard_of_queued,
    "extend_lease": _guard_extend_lease,
    "claim": _guard_claim,
    "reclaim": _guard_reclaim,
    "commit": _guard_of_holder,
    "dispute": _guard_of_holder,
}
"""What each compare-and-swap compares, and when a pack is disabled; apart, so that mutations.py can weaken one."""


def _cas(tables: Tables, name: str, p: Params, now: datetime, changes: Callable[[Row], Row]) -> Answer:
    at = p["now"] or now
    row = tables.runs.get(p["run_id"])
    if row is None or not GUARDS[name](row, p, at):
        return _returning([])
    stamped = {"version": row["version"] + 1, "updated_at": at}
    return _returning([_update(tables, row, changes(row) | stamped)])


def _note_begun(tables: Tables, row: Row, how: str) -> None:
    if is_disabled(tables.switches, row, row["updated_at"]):
        tables.begun.append((row["run_id"], how))


def _update(tables: Tables, row: Row, changes: Row) -> Row:
    changed = row | changes
    check(changed)
    tables.runs[row["run_id"]] = changed
    return changed


def _intent(p: Params, now: datetime) -> Row:
    return {
        "finalize_token": p["finalize_token"],
        "finalize_claimed_at": p["now"] or now,
        "finalize_outcome": _text(p["outcome"]),
        "finalize_money_state": _text(p["money_state"]),
        "finalize_charge_usd_micros": p["charge"],
        "tokens_consumed": p["tokens_consumed"],
        "result_bucket": p["result_bucket"],
        "result_key": p["result_key"],
        "result_sha256": p["result_sha256"],
        "last_error_reason_code": _text(p["reason_code"]),
        "last_error_detail": p["detail"],
    }


def _returning(rows: list[Row]) -> Answer:
    return Answer(COLUMNS, [tuple(row.values()) for row in rows], len(rows))


def _living_run_of_key(tables: Tables, p: Params) -> Row | None:
    wanted = (p["tenant_id"], p["idempotency_key"], None)
    for row in tables.runs.values():
        if (row["tenant_id"], row["idempotency_key"], row["idempotency_released_at"]) == wanted:
            return row
    return None


def is_waiting(row: Row) -> bool:
    """QUEUED, and nobody has claimed its end."""
    return unclaimed(row, "QUEUED")


def unclaimed(row: Row, status: str) -> bool:
    return bool(row["status"] == status and row["finalize_stage"] is None)


def claimed(row: Row) -> bool:
    return bool(row["finalize_stage"] == "CLAIMED" and row["money_state"] == "RESERVED")


def _text(value: object) -> str | None:
    return None if value is None else str(value)
