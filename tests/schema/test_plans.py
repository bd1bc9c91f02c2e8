"""No hot query and no scan reads a whole table (conventions, "SQL and Lua")."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.runs.jobs import retention
from dpp.runs.operations import stats as run_stats
from dpp.runs.store import QUERIES
from dpp_cli.local.servers import PostgresServer
from tests.support.plans import database

_MONEY = Queries("dpp.money", "queries.sql")
_PLATFORM = Queries("dpp.platform.keys", "api_keys.sql")
_RUNS = 100_000
_FILL = """
INSERT INTO tenants (tenant_id, display_name) SELECT 't-' || n, 'x' FROM generate_series(0, 4999) n;
INSERT INTO api_keys (key_id, tenant_id, key_hash)
  SELECT gen_random_uuid(), 't-' || n, lpad(to_hex(n), 64, '0') FROM generate_series(0, 4999) n;
INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason)
  SELECT gen_random_uuid(), 't-' || n % 5000, 1000000, 'x' FROM generate_series(1, 20000) n;
INSERT INTO ledger_audits (tenant_id, audited_at, verdict, drift_usd_micros, detail)
  SELECT 't-' || n, now(), CASE n % 500 WHEN 0 THEN 'DISPUTED' ELSE 'REPAIRED' END, n, 'x'
  FROM generate_series(0, 4999) n;
-- Of 200 runs, one is queued, one processing, one claimed; the others have ended.
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key, payload_hash,
  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, timebox_sec,
  min_reliability_score, retention_until, trace_id, created_at, lease_token, lease_expires_at,
  finalize_stage, finalize_token, finalize_claimed_at, finalize_outcome, finalize_money_state,
  finalize_charge_usd_micros, result_bucket, result_key, result_sha256)
SELECT gen_random_uuid(), 't-' || n % 5000, 'decision', 'v',
  CASE n % 200 WHEN 0 THEN 'QUEUED' WHEN 1 THEN 'PROCESSING' WHEN 2 THEN 'PROCESSING' ELSE 'COMPLETED' END,
  CASE WHEN n % 200 < 3 THEN 'RESERVED' ELSE 'SETTLED' END,
  'key-' || lpad(n::text, 8, '0'), repeat('ab', 32), 250000, 5000, CASE WHEN n % 200 > 2 THEN 50000 END, 90, 0.8,
  now() + interval '30 days', 't', now() - n * interval '1 second',
  CASE WHEN n % 200 > 0 THEN 'l' END, CASE WHEN n % 200 > 0 THEN now() - n * interval '1 second' END,
  CASE WHEN n % 200 > 2 THEN 'COMMITTED' WHEN n % 200 = 2 THEN 'CLAIMED' END,
  CASE WHEN n % 200 > 1 THEN 'f' END, CASE WHEN n % 200 > 1 THEN now() - n * interval '1 second' END,
  CASE WHEN n % 200 > 1 THEN 'COMPLETED' END, CASE WHEN n % 200 > 1 THEN 'SETTLED' END,
  CASE WHEN n % 200 > 1 THEN 50000 END,
  CASE WHEN n % 200 > 1 THEN 'b' END, CASE WHEN n % 200 > 1 THEN 'k' END,
  CASE WHEN n % 200 > 1 THEN repeat('ab', 32) END
FROM generate_series(1, {runs}) n;
-- The oldest fifth are tombstones.
UPDATE runs SET status = 'EXPIRED', result_bucket = NULL, result_key = NULL, result_sha256 = NULL,
  idempotency_released_at = now(), updated_at = created_at
WHERE status = 'COMPLETED' AND created_at < now() - {runs} * interval '0.8 seconds';
INSERT INTO ledger_carried (tenant_id, charges_usd_micros, runs, updated_at)
  SELECT 't-' || n, n, 1, now() FROM generate_series(0, 4999) n;
INSERT INTO run_inputs (run_id, inputs, purge_after) SELECT run_id, '{{}}', now() + n * interval '1 second'
  FROM (SELECT run_id, row_number() OVER () AS n FROM runs LIMIT 20000);
INSERT INTO execution_switches (scope, enabled, decision_id, actor, reason, decided_at)
  SELECT scope, true, gen_random_uuid(), 'x', 'x', now()
  FROM unnest(ARRAY['*', 'ocr', 'url', 'decision', 'compliance', 'eval']) scope;
ANALYZE;
"""
_PARAMS: dict[str, Any] = {
    "now": None,
    "pack_type": "decision",
    "profile_version": "v",
    "payload_hash": "ab" * 32,
    "reserved_usd_micros": 250_000,
    "minimum_fee_usd_micros": 5_000,
    "timebox_sec": 90,
    "min_reliability_score": 0.8,
    "inline_result": False,
    "trace_id": "t",
    "inputs": Jsonb({}),
    "scope": "decision",
    "enabled": False,
    "decision_id": UUID(int=1),
    "actor": "x",
    "decided_at": datetime(2026, 1, 1, tzinfo=UTC),
    "tenant_id": "t-7",
    "idempotency_key": "key-00000007",
    "version": 0,
    "lease_token": "l",
    "lease_ttl_seconds": 120,
    "lease_must_have_expired": True,
    "minimum_age_seconds": 0,
    "stuck_after_seconds": 300,
    "expected_status": "PROCESSING",
    "finalize_token": "f",
    "stage": "CLAIMED",
    "outcome": "FAILED",
    "money_state": "SETTLED",
    "charge": 5_000,
    "tokens_consumed": 0,
    "result_bucket": None,
    "result_key": None,
    "result_sha256": None,
    "result_parts": "[]",
    "reason_code": "X",
    "detail": "x",
    "release_idempotency_key": False,
    "age_seconds": 3_600,
    "after_time": datetime(1, 1, 1, tzinfo=UTC),
    "limit": 100,
    "after": "t-1",
    "credits_since_seconds": None,
    "verdict": "BALANCED",
    "drift_usd_micros": 0,
    "reason": "DRIFT",
    "before_usd_micros": None,
    "balance_usd_micros": 1,
    "missing_reservations": 0,
    "at_most": 10_000,
    "seconds": 300,
    "runs": 2_000,
    "tenant_ids": ["t-1", "t-2"],
    "before": datetime(2100, 1, 1, tzinfo=UTC),
}
_HOT = [
    *((QUERIES, name) for name in QUERIES.names()),
    *((retention.TOMBSTONES.statements, name) for name in retention.TOMBSTONES.statements),
    *((run_stats.QUERIES, name) for name in run_stats.QUERIES.names() if name != "watched_tenants"),
    *((_PLATFORM, name) for name in ("select_api_key", "touch_api_key")),
    *(
        (_MONEY, name)
        for name in (
            "lock_credits",
            "select_credit",
            "position",
            "tenants_after",
            "has_credits",
            "books",
            "record_audit",
            "disputed_ledgers",
            "closed_since",
            "record_rebuild",
        )
    ),
]


@pytest.fixture(scope="module")
def filled(postgres_server: PostgresServer) -> Iterator[Connection]:
    """A database of 100 000 runs, shared by the tests below, which change nothing."""
    with database(postgres_server) as connection:
        connection.execute(sql.SQL(_FILL).format(runs=_RUNS))
        yield connection


@pytest.mark.parametrize(("queries", "name"), _HOT, ids=lambda value: value if isinstance(value, str) else "")
def test_no_query_reads_a_whole_table(filled: Connection, queries: Queries, name: str) -> None:
    """The plan has no sequential scan, except of the at most six switches, and a page is not sorted."""
    some = filled.execute("SELECT run_id FROM runs LIMIT 1").fetchone()
    assert some is not None
    ids = {"run_id": some[0], "run_ids": [some[0]] * 50, "key_id": uuid4(), "credit_id": uuid4(), "after_id": some[0]}
    plan = "\n".join(
        row[0] for row in filled.execute(sql.SQL("EXPLAIN ") + sql.SQL(queries[name]), _PARAMS | ids).fetchall()
    )
    assert "Seq Scan" not in plan.replace("Seq Scan on execution_switches", ""), plan
    if name.startswith("page_"):
        assert "Sort" not in plan, plan  # the index gives the order, so a page reads only a page


def test_a_sequential_scan_is_found(filled: Connection) -> None:
    plan = filled.execute("EXPLAIN SELECT * FROM runs WHERE trace_id = 'x'").fetchall()
    assert any("Seq Scan" in row[0] for row in plan)
