"""Compiled statements do the same as Postgres: the same calls on both, compared row by row and error by error."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from dpp.money.books import QUERIES as MONEY
from dpp.platform.db.postgres import Connection
from dpp.runs import store, submit_store
from tests.sim.database import Database
from tests.sim.ports import SimConnection, Wire
from tests.sim.schema import schema
from tests.support.world import a_request

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
_TENANT, _HASH = "t_one", "ab" * 32
_IDS = [UUID(int=number << 96 | number) for number in (1, 2, 3)]
_MAX_AMOUNT = 2**53 - 1
_STATEMENTS: Mapping[str, Any] = {
    name: queries[name]
    for queries in (store.QUERIES, MONEY)
    for name in queries.names()
    # Of these the simulation runs only the last two, which act on no row.
    if name not in ("purge_inputs", "rebuilds", "bound_the_wait", "stop_writes_to_runs")
}
_POINTER = {"result_bucket": "b", "result_key": "k", "result_sha256": _HASH, "result_parts": "[]"}
_INTENTS: tuple[dict[str, Any], ...] = (
    {"outcome": "COMPLETED", "charge": 50_000, "tokens_consumed": 7} | _POINTER,
    {"charge": 5_000, "reason_code": "WORKER_TIMEOUT", "detail": "late"},
    {"money_state": "REFUNDED", "charge": 0, "reason_code": "RESERVATION_EXPIRED", "detail": "waited"},
    {"outcome": "COMPLETED", "charge": 900_000} | _POINTER,
    {"charge": 5_000},
    {"outcome": "COMPLETED", "charge": 1},
    {"outcome": "COMPLETED", "charge": 1} | _POINTER | {"result_sha256": "no hash"},
    {"charge": 5_000, "reason_code": "X", "result_parts": '[{"name": "of no result"}]'},
    {"money_state": "REFUNDED", "charge": 1, "reason_code": "X"},
    {"outcome": "COMPLETED", "money_state": "REFUNDED", "charge": 0} | _POINTER,
    {"outcome": "COMPLETED", "charge": 1, "tokens_consumed": -1} | _POINTER,
    {"charge": 5_000, "reason_code": "X" * 65},
    {"charge": 5_000, "reason_code": "X", "detail": "d" * 1_001},
)
_SERVER_TIMES = {
    ("tenants", "created_at"),
    ("budget_credits", "created_at"),
    ("ledger_rebuilds", "created_at"),
    ("ledger_rebuilds", "rebuild_id"),
}
"""Columns that the server sets from its own clock or sequence."""
_NO_INTENT = dict.fromkeys((*_POINTER, "reason_code", "detail")) | {"tokens_consumed": 0, "result_parts": "[]"}

type Call = tuple[str, int, Mapping[str, Any]]
"""A statement, the index of the run that it is about, and parameters."""

_CALLS = st.tuples(
    st.sampled_from(sorted(_STATEMENTS)),
    st.integers(0, 2),
    st.fixed_dictionaries(
        {
            "minutes": st.sampled_from([0, 1, 2, 3, 6, 7, 61, 50_000]),
            "stale": st.sampled_from([0, 0, 0, 1]),
            "intent": st.integers(0, len(_INTENTS) - 1),
            "idempotency_key": st.sampled_from(["key-one!", "key-two!", "short"]),
            "reserved_usd_micros": st.sampled_from([250_000, 4_900, 0]),
            "expected_status": st.sampled_from(["QUEUED", "PROCESSING"]),
            "lease_must_have_expired": st.booleans(),
            "minimum_age_seconds": st.sampled_from([0, 0, 3_600]),
            "release_idempotency_key": st.booleans(),
            "scope": st.sampled_from(["*", "decision", "url"]),
            "enabled": st.sampled_from([True, True, False]),
            "tenant_id": st.sampled_from([_TENANT, _TENANT, "t_other", "t_unknown"]),
            "amount_usd_micros": st.sampled_from([1, 10**9, _MAX_AMOUNT]),
            "credits_since_seconds": st.sampled_from([None, 300.0, -5.0]),
            "verdict": st.sampled_from(["BALANCED", "DISPUTED", "REPAIRED", "BUSY"]),
            "age_seconds": st.sampled_from([0, 60, 300, 3_600, 700_000]),
            "limit": st.integers(1, 3),
        }
    ),
)


@contextmanager
def _both(database_url: str) -> Iterator[tuple["_Side", "_Side"]]:
    """An empty in-memory database and an empty real one, with two tenants each."""
    database = Database()
    model = cast(Connection, SimConnection(Wire(), database))
    with psycopg.connect(database_url, autocommit=True) as real:
        real.execute("SET session_replication_role = replica")  # or triggers refuse the deletions
        for table in schema().tables:
            real.execute(f"DELETE FROM {table}".encode())
        real.execute("SET session_replication_role = origin")
        for connection in (model, real):
            for tenant in (_TENANT, "t_other"):
                params = {"tenant_id": tenant, "display_name": "A tenant", "rate_limit_per_minute": 60}
                connection.execute(MONEY["create_tenant"], params)
        yield _Side(model, database), _Side(real)


@dataclass
class _Side:
    """One database, and the latest versions of its runs."""

    connection: Connection
    database: Database | None = None
    """The rows of the in-memory side."""
    versions: dict[UUID, Mapping[str, Any]] = field(default_factory=dict)
    calls: int = 0

    def do(self, call: Call) -> object:
        """Execute one statement; its rows, or the error's name and constraint."""
        self.calls += 1
        name, index, given = call
        sql = _STATEMENTS[name]
        try:
            cursor = self.connection.execute(sql, self._params(name, _IDS[index], given))
        except psycopg.IntegrityError as error:
            return error.sqlstate, error.diag.constraint_name
        result = cursor.pgresult
        columns = [(result.fname(number) or b"").decode() for number in range(result.nfields)] if result else []
        rows = cursor.fetchall() if columns else []
        for row in (dict(zip(columns, row, strict=True)) for row in rows):
            if "version" in row:
                self.versions[row["run_id"]] = row
        rows = [tuple(sorted(value) if isinstance(value, list) else value for value in row) for row in rows]
        return cursor.rowcount, rows if "ORDER BY" in sql else sorted(rows, key=_by_key)

    def _params(self, name: str, run_id: UUID, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter that a statement can have."""
        now = T0 + timedelta(minutes=given["minutes"])
        run, new = self.versions.get(run_id, {}), f"token-{self.calls}"
        return {
            "run_id": run_id,
            "credit_id": run_id,
            "decision_id": run_id,
            "now": now,
            "decided_at": now,
            "tenant_id": _TENANT,
            "pack_type": "decision",
            "profile_version": "PROFILE_DPP_0_4_2_2",
            "payload_hash": _HASH,
            "minimum_fee_usd_micros": 5_000,
            "timebox_sec": 90,
            "min_reliability_score": 0.8,
            "inline_result": False,
            "idempotency_key": "key-one!",
            "reserved_usd_micros": 250_000,
            "expected_status": "PROCESSING",
            "lease_must_have_expired": False,
            "minimum_age_seconds": 0,
            "release_idempotency_key": False,
            "verdict": "BALANCED",
            "amount_usd_micros": 500,
            "credits_since_seconds": None,
            "age_seconds": 60,
            "limit": 3,
            "trace_id": "t_conformance",
            "inputs": Jsonb({"question": "Which?", "mode": {"brief": [1, 2.5, None]}}),
            "version": run.get("version", 0) - given.get("stale", 0),
            "lease_token": new if name == "start_processing" else run.get("lease_token"),
            "lease_ttl_seconds": 120,
            "finalize_token": new if name in ("claim", "reclaim", "resolve") else run.get("finalize_token"),
            "stage": "CLAIMED",
            "stuck_after_seconds": 300,
            "outcome": "FAILED",
            "money_state": "SETTLED",
            "actor": "ops_one",
            "reason": "OPERATOR",
            "after": "",
            "share": 0.5,
            "after_time": T0 - timedelta(days=1),
            "after_id": UUID(int=0),
            "run_ids": _IDS,
            "max_usd_micros": _MAX_AMOUNT,
            "display_name": "A tenant",
            "rate_limit_per_minute": 60,
            "every_seconds": 60,
            "drift_usd_micros": 0 if given.get("verdict", "BALANCED") == "BALANCED" else 7,
            "before_usd_micros": None,
            "balance_usd_micros": 5,
            "missing_reservations": 1,
            **_NO_INTENT,
            **_INTENTS[given.get("intent", 0)],
            **given,
        }

    def content(self) -> dict[str, list[Any]]:
        """Every row of every table, without the times that the server's clock sets."""
        found = {}
        for name, table in schema().tables.items():
            columns = [column for column in table.columns if (name, column) not in _SERVER_TIMES]
            if self.database is not None:
                rows = self.database.rows(name)
            else:
                cursor = self.connection.execute(f"SELECT {', '.join(columns)} FROM {name}".encode())
                rows = [dict(zip(columns, row, strict=True)) for row in cursor]
            found[name] = sorted(([row[column] for column in columns] for row in rows), key=_by_key)
        return found


def _by_key(row: Sequence[Any]) -> str:
    return str(row[:2])


@settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(_CALLS, min_size=3, max_size=30))
def test_any_sequence_of_statements_does_the_same_in_memory_and_in_postgres(
    database_url: str, calls: list[Call]
) -> None:
    """Compares every row, every refusal by its constraint, and what all tables hold at the end."""
    with _both(database_url) as (ours, theirs):
        for call in calls:
            assert ours.do(call) == theirs.do(call), call
        assert ours.content() == theirs.content()


type _Step = tuple[str, int, dict[str, Any]]
"""A statement, the minutes since T0, and parameters."""
_START: _Step = ("start_processing", 1, {})
_COMMIT: _Step = ("commit", 61, {})
_PARK: _Step = ("park", 1, {})
_CLAIM: _Step = ("claim", 1, {})
_CLAIM_WAITING: _Step = ("claim", 61, {"expected_status": "QUEUED", "minimum_age_seconds": 3_600, "intent": 2})
_REAP = {"lease_must_have_expired": True, "intent": 1}
_SWITCH = {"scope": "decision", "enabled": False}
_LIVES: dict[str, list[_Step]] = {
    "completed": [_START, _CLAIM, _COMMIT],
    "reaped": [_START, ("claim", 6, _REAP), ("commit", 6, {})],
    "reaped too early": [_START, ("claim", 3, _REAP)],
    "swept": [_CLAIM_WAITING, _COMMIT],
    "never queued": [
        ("claim", 0, {"expected_status": "QUEUED", "intent": 2}),
        ("commit", 0, {"release_idempotency_key": True}),
    ],
    "taken over": [_START, _CLAIM, ("reclaim", 7, {"intent": 1}), ("commit", 7, {"stale": 1}), _COMMIT, _COMMIT],
    "disputed": [_START, _CLAIM, ("dispute", 1, {}), _COMMIT, ("reclaim", 61, {"intent": 1})],
    "lease extended": [_START, ("extend_lease", 2, {}), ("extend_lease", 6, {}), ("mark_enqueued", 6, {})],
    "parked and resumed": [
        ("mark_enqueued", 0, {}),
        ("decide_execution", 1, _SWITCH),
        ("insert_run", 1, {"run": 2, "idempotency_key": "key-two!", "reserved_usd_micros": 100}),
        _START,
        _PARK,
        ("park", 1, {"stale": 1}),
        ("mark_enqueued", 1, {}),
        ("page_unsent", 2, {}),
        ("decide_execution", 2, _SWITCH | {"run": 1, "enabled": True}),
        ("page_unsent", 2, {}),
        _START,
        _PARK,
    ],
    "disabled with all packs": [
        ("decide_execution", 1, {"run": 1, "scope": "*", "enabled": False}),
        ("insert_run", 1, {}),
        _START,
        ("decide_execution", 0, {"scope": "*", "enabled": True}),
        ("decide_execution", 1, {"run": 1, "scope": "*", "enabled": True}),
        ("decide_execution", 1, _SWITCH | {"run": 2, "enabled": True}),
        ("execution_switches", 1, {}),
        _START,
        _CLAIM_WAITING,
        ("park", 61, {"stale": 1}),
        _COMMIT,
    ],
    "released without a reason": [_START, _CLAIM, ("commit", 1, {"release_idempotency_key": True})],
    "expired": [_START, _CLAIM, _COMMIT, ("page_past_retention", 50_000, {}), ("expire", 50_000, {})],
}


@pytest.mark.parametrize("life", _LIVES)
def test_a_run_takes_the_same_way_through_its_states(database_url: str, life: str) -> None:
    """Each way through the state machine; random sequences rarely go far."""
    calls: list[Call] = [
        (name, given.get("run", 0), {"minutes": minutes} | given)
        for name, minutes, given in [
            ("insert_run", 0, {}),
            *_LIVES[life],
            *((name, 61, {}) for name in _STATEMENTS if name.startswith(("page_", "run_", "books", "position"))),
            ("insert_run", 61, {"run": 1}),
        ]
    ]
    with _both(database_url) as (ours, theirs):
        for call in calls:
            assert ours.do(call) == theirs.do(call), call
        assert ours.content() == theirs.content()


def test_a_scan_of_several_pages_returns_the_same_runs_in_the_same_order(database_url: str) -> None:
    """More rows than a page holds, created at the same time: the id orders them."""
    ids = [UUID(int=number << 64 | number) for number in range(130)]
    with _both(database_url) as sides:
        connections = [side.connection for side in sides]
        for run_id in ids:
            for connection in connections:
                submit_store.insert(connection, a_request(_TENANT), run_id, T0)
        later = T0 + timedelta(hours=2)
        pages = [
            [run.run_id for run in store.page_through(connection, "page_unsent", later, 60)]
            for connection in connections
        ]
        assert pages[0] == pages[1] == sorted(ids)
