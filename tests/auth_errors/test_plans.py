"""With many events and errors, each statement reads only the rows that it needs (AUTH-4, AUTH-5)."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.auth_errors import store
from dpp.auth_errors.machine import AuthErrorStatus
from dpp.auth_errors.outbox import tables
from dpp.money.credits import create_tenant
from dpp_cli.local.servers import PostgresServer
from tests.support import plans
from tests.support.plans import explained, nodes, pages

ERRORS = 60_000
_CLUSTER = UUID(int=1)
_FILL = f"""
SET session_replication_role = replica;
ALTER TABLE auth_error SET (autovacuum_enabled = off);
ALTER TABLE outbox_message SET (autovacuum_enabled = off);
ALTER TABLE processed_message SET (autovacuum_enabled = off);
INSERT INTO auth_error (auth_error_id, reported_by, dedup_key, payload_hash, occurred_at, http_status, exception_class,
  stacktrace, status, retry_count, analyzed_at, moved_by, created_at, updated_at)
SELECT ('00000000-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid, 't_plans', 'r' || n, repeat('a', 64),
  now() - n * interval '10 seconds', 401, 'com.example.E' || n % 50, 'at x', (ARRAY['ANALYSIS_COMPLETED', 'RESOLVED',
  'IGNORED', 'PROCESSED'])[n % 4 + 1], 0, now(), 'x', now() - n * interval '10 seconds', now()
FROM generate_series(1, {ERRORS}) n;
INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status,
  processing_owner, processing_since, retry_count, next_retry_at, published_at, last_sent_at, handled_at, last_error,
  created_at)
SELECT 'auth_error', id, 'auth.error.recorded.v1', 'auth_error:recorded:' || id,
  jsonb_build_object('authErrorId', id::text), repeat('a', 64), s,
  CASE WHEN s = 'PROCESSING' THEN gen_random_uuid() END, CASE WHEN s = 'PROCESSING' THEN at END, 0,
  CASE WHEN s = 'PENDING' THEN at END, CASE WHEN s = 'PUBLISHED' THEN at END, CASE WHEN s = 'PUBLISHED' THEN at END,
  CASE WHEN s = 'PUBLISHED' AND n > 600 THEN at END, CASE WHEN s = 'DEAD' THEN 'x' END, at
FROM (SELECT n, ('00000000-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid AS id,
        now() - n * interval '10 seconds' - interval '1 hour' AS at,
        CASE WHEN n <= 200 THEN 'PENDING' WHEN n <= 300 THEN 'PROCESSING' WHEN n <= 320 THEN 'DEAD'
             ELSE 'PUBLISHED' END AS s
      FROM generate_series(1, {ERRORS}) n) AS rows;
INSERT INTO processed_message (outbox_id, status, attempts, last_error, created_at, updated_at)
SELECT outbox_id, CASE WHEN outbox_id % 3000 = 0 THEN 'DEAD' ELSE 'DONE' END, 1, 'x', created_at, created_at
FROM outbox_message WHERE handled_at IS NOT NULL;
INSERT INTO auth_error_cluster SELECT ('00000000-0000-0000-0000-' || lpad(to_hex(n), 12, '0'))::uuid, 'v1',
  lpad(to_hex(n), 64, '0'), 'com.example.E', {ERRORS} / 50, now() - interval '9 days', now() - n * interval '1 minute'
FROM generate_series(1, 5000) n;
INSERT INTO auth_error_cluster_item
SELECT ('00000000-0000-0000-0000-' || lpad(to_hex(sequence % 50 + 1), 12, '0'))::uuid, auth_error_id, occurred_at,
  sequence, created_at FROM auth_error;
SET session_replication_role = origin
"""
_TABLES = ("auth_error", "outbox_message", "processed_message", "auth_error_cluster", "auth_error_cluster_item")
_AN_ERROR = UUID(int=ERRORS // 2)
_PARAMS: dict[str, Any] = {
    "now": None,
    "limit": 50,
    "owner": uuid4(),
    "silent_seconds": 60,
    "outbox_ids": [1, 2, 3],
    "outbox_id": ERRORS // 2,
    "next_retry_at": None,
    "retry_count": 1,
    "error": "x",
    "event_type": "auth.error.recorded.v1",
    "auth_error_id": _AN_ERROR,
    "lease_seconds": 60,
    "max_retries": 5,
    "before": "infinity",
    "below": 2**62,
    "since": None,
    "status": None,
    "exception_class": None,
    "cluster_id": _CLUSTER,
    "statuses": [AuthErrorStatus.ANALYSIS_COMPLETED],
    "escalates": True,
    "minutes": 600,
    "at_most": 100,
    "reported_by": "t_plans",
    "request_id": "r777",
    "actor": "x",
    "idempotency_key": f"auth_error:recorded:{_AN_ERROR}",
}


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """Sixty thousand errors with their events; each test is rolled back."""
    with plans.database(postgres_server) as connection:
        create_tenant(connection, "t_plans", "plans", 60)
        for statement in _FILL.split(";\n"):
            connection.execute(statement.encode())
        for table in _TABLES:
            connection.execute(f"VACUUM ANALYZE {table}".encode())
        yield connection


def _explained(connection: psycopg.Connection[Any], query: str, **changes: Any) -> dict[str, Any]:
    queries = tables.QUERIES if query in tables.QUERIES.names() else store.QUERIES
    return explained(connection, queries[query], _PARAMS | changes)


@pytest.mark.parametrize(
    ("query", "changes", "at_most"),
    [
        ("claim", {}, 3_000),
        ("take_over", {}, 3_000),
        ("send_again", {}, 3_000),
        ("mark_published", {}, 60),
        ("put_back", {"outbox_id": 250}, 60),
        ("ensure_row_exists", {"outbox_id": 100}, 60),
        ("processed", {}, 20),
        ("take_lease", {}, 60),
        ("finish", {}, 60),
        ("mark_dead", {}, 60),
        ("entries", {}, 60),
        ("dead_ids", {}, 300),
        ("waiting_ids", {}, 400),
        ("lag", {}, 400),
        ("hash_of_key", {}, 10),
        ("find_by_key", {}, 10),
        ("find", {}, 10),
        ("lock", {}, 20),
        ("page", {}, 120),
        ("page", {"status": "RESOLVED"}, 200),
        ("page", {"exception_class": "com.example.E7"}, 200),
        ("page_of_cluster", {}, 500),
        ("open_of_cluster", {}, 1_500),
        ("seen_lately", {}, 200),
        ("clusters", {}, 60),
        ("clusters_of", {}, 60),
        ("growing", {}, 100),
    ],
)
def test_statements_read_only_their_rows(
    full: psycopg.Connection[Any], query: str, changes: dict[str, Any], at_most: int
) -> None:
    plan = _explained(full, query, **changes)
    scanned = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert not scanned & set(_TABLES), json.dumps(plan)
    assert pages(plan) <= at_most, json.dumps(plan)


def test_claim_takes_due_events_in_order(full: psycopg.Connection[Any]) -> None:
    plan = _explained(full, "claim")
    assert plan["Actual Rows"] == 50
    indexes = {node.get("Index Name") for node in nodes(plan)}
    assert {"outbox_message_pending", "outbox_message_by_error"} <= indexes
