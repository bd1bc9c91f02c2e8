"""A look of `dpp top` reads little of much: at 100,000 rows of a kind, within a bound, and from indexes."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from bench.cleanup.rows import fill as fill_ended
from dpp.auth_errors import store as auth_error_store
from dpp.auth_errors.outbox import tables
from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow import store as lifecycle_store
from dpp.lifecycle.retention import store as cleanup_store
from dpp.money import stats as money_stats
from dpp.platform.db.sql import Queries
from dpp.runs import store as run_store
from dpp.runs.operations import stats as run_stats
from dpp.tickets import store as ticket_store
from dpp.workspaces import store as workspace_store
from dpp_cli.local.servers import PostgresServer
from tests.support import plans
from tests.support.plans import explained, nodes, pages
from tests.tickets.filled import fill as fill_tickets
from tests.workspaces.database.filled import fill as fill_workspaces

_ROWS = 100_000
_TENANTS = 1_001
_RUNS = """
INSERT INTO tenants (tenant_id, display_name) SELECT 'many-' || n, 'x' FROM generate_series(1, 20000) n;
INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason)
  SELECT gen_random_uuid(), 'many-' || n, 1000000, 'x' FROM generate_series(1, 20000) n;
INSERT INTO ledger_audits (tenant_id, audited_at, verdict, drift_usd_micros, detail)
  SELECT 'many-' || n, now(), CASE n % 500 WHEN 0 THEN 'DISPUTED' ELSE 'REPAIRED' END, n, 'x'
  FROM generate_series(1, 20000) n;
INSERT INTO ledger_rebuilds (tenant_id, reason, before_usd_micros, balance_usd_micros, missing_reservations)
  SELECT 'many-' || n % 20000 + 1, 'DRIFT', 2, 1, 0 FROM generate_series(1, {rows}) n;
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key, payload_hash,
  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, timebox_sec,
  min_reliability_score, retention_until, trace_id, created_at, updated_at, lease_token, lease_expires_at,
  finalize_stage, finalize_token, finalize_claimed_at, finalize_outcome, finalize_money_state,
  finalize_charge_usd_micros, result_bucket, result_key, result_sha256)
SELECT gen_random_uuid(), 'many-' || n % 20000 + 1, 'decision', 'v',
  CASE n % 5 WHEN 0 THEN 'QUEUED' WHEN 1 THEN 'PROCESSING' ELSE 'COMPLETED' END,
  CASE WHEN n % 5 < 2 THEN 'RESERVED' ELSE 'SETTLED' END,
  'key-' || lpad(n::text, 8, '0'), repeat('ab', 32), 250000, 5000, CASE WHEN n % 5 > 1 THEN 50000 END, 90, 0.8,
  at + interval '30 days', 't', at, at, CASE WHEN n % 5 > 0 THEN 'l' END, CASE WHEN n % 5 > 0 THEN at END,
  CASE WHEN n % 5 > 1 THEN 'COMMITTED' END, CASE WHEN n % 5 > 1 THEN 'f' END, CASE WHEN n % 5 > 1 THEN at END,
  CASE WHEN n % 5 > 1 THEN 'COMPLETED' END, CASE WHEN n % 5 > 1 THEN 'SETTLED' END,
  CASE WHEN n % 5 > 1 THEN 50000 END, CASE WHEN n % 5 > 1 THEN 'b' END, CASE WHEN n % 5 > 1 THEN 'k' END,
  CASE WHEN n % 5 > 1 THEN repeat('ab', 32) END
FROM (SELECT n, now() - n * interval '50 milliseconds' AS at FROM generate_series(1, {rows}) n) AS numbered;
"""
_PUBLISHED = """
UPDATE outbox_message SET handled_at = NULL WHERE outbox_id % 10 = 0
"""
_PARAMS: dict[str, Any] = {
    "now": None,
    "at_most": run_stats.COUNTED_TO,
    "seconds": 300,
    "runs": 2_000,
    "tenant_ids": [f"many-{n}" for n in range(1, 21)],
    "age_seconds": 360,
    "threshold_seconds": 86_400,
    "excluded": [],
    "old_days": 7,
    "days": 7,
    "limit": 2,
}
_ASKED: list[tuple[Queries, str]] = [
    *((run_stats.QUERIES, name) for name in run_stats.QUERIES.names()),
    (run_store.QUERIES, "unresolved"),
    *((money_stats.QUERIES, name) for name in money_stats.QUERIES.names()),
    (ticket_store.QUERIES, "count_waiting"),
    (ticket_store.QUERIES, "backlog"),
    (ticket_store.QUERIES, "latest_receipts"),
    (tables.QUERIES, "lag"),
    (tables.QUERIES, "unhandled"),
    (auth_error_store.QUERIES, "escalated_lately"),
    *((workspace_store.QUERIES, name) for name in ("unsettled", "in_error", "count_by_phase")),
    (lifecycle_store.QUERIES, "backlog"),
    (heartbeat.QUERIES, "ages"),
    *(
        (cleanup_store.QUERIES, name)
        for name in ("latest_of_classes", "age_of_daily", "overdue_threads", "overdue_awaiting", "deletion_backlog")
    ),
]
_BIG = frozenset({"runs", "tickets", "outbox_message", "processed_message", "workspaces", "ledger_rebuilds"})
"""Filled tables that must not be scanned. Tenants are read by their key; the rest is a few rows, always."""


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """Very much of everything; what a test does is rolled back."""
    with plans.database(postgres_server) as connection:
        connection.execute("SET synchronous_commit = on")
        for statement in _RUNS.format(rows=_ROWS).strip().split(";\n"):
            connection.execute(statement.rstrip(";").encode())
        fill_tickets(connection, tickets=_ROWS, stale=2_000, working=200, waiting=100)
        fill_workspaces(connection, workspaces=_ROWS, unsettled=500, idle=10)
        fill_ended(connection, "outbox", 1, _ROWS)
        connection.execute("SET session_replication_role = replica")
        connection.execute(_PUBLISHED)
        connection.execute("SET session_replication_role = origin")
        connection.execute("VACUUM ANALYZE")
        yield connection


@pytest.mark.parametrize(("queries", "name"), _ASKED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_look_reads_no_table_whole_and_little_of_each(
    full: psycopg.Connection[Any], queries: Queries, name: str
) -> None:
    """The page is asked for every second or two, by anybody metrics."""
    params = _PARAMS | ({"at_most": _TENANTS} if name == "watched_tenants" else {})
    plan = explained(full, queries[name], params)
    whole = [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in _BIG
    ]
    assert whole == []
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(plan)
        if "Scan" in node["Node Type"] and node.get("Relation Name") in _BIG
    )
    assert read <= 2 * run_stats.COUNTED_TO + 5_000, plan
    assert pages(plan) <= 25_000


def test_a_table_that_is_read_whole_would_be_seen(full: psycopg.Connection[Any]) -> None:
    """The check can fail."""
    plan = explained(full, "SELECT count(*) FROM runs WHERE updated_at > now() - interval '5 minutes'", {})
    assert any(node["Node Type"] == "Seq Scan" for node in nodes(plan))
