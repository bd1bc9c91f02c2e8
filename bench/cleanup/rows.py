"""Fills tables with millions of rows that are all due for deletion, and copies them without our guards."""

from typing import Any

import psycopg

TABLES = {"tombstones": "runs", "outbox": "outbox_message, processed_message"}
UNGUARDED = "unguarded"

# Twenty tenants; nine of ten runs were charged. Their inputs were purged long ago (D8). The rows are a second apart
# from 2020 on, so that rows added later are due later.
_TENANTS = """
INSERT INTO tenants (tenant_id, display_name) SELECT 't_' || n, 'x' FROM generate_series(0, 19) n ON CONFLICT DO NOTHING
"""
_TOMBSTONES = """
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, version, idempotency_key,
  idempotency_released_at, payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros,
  actual_cost_usd_micros, timebox_sec, min_reliability_score, retention_until, finalize_stage, finalize_token,
  finalize_claimed_at, finalize_outcome, finalize_money_state, finalize_charge_usd_micros, trace_id,
  last_error_reason_code, enqueued_at, created_at, updated_at)
SELECT gen_random_uuid(), 't_' || mod(n, 20), 'decision', 'v0.4.2.2', 'EXPIRED', money_state, 3,
  gen_random_uuid()::text,
  at, repeat('ab', 32), 250000, 5000, charge, 90, 0.8, at, 'COMMITTED', gen_random_uuid()::text, ended_at,
  CASE money_state WHEN 'REFUNDED' THEN 'FAILED' ELSE 'COMPLETED' END, money_state, charge, gen_random_uuid()::text,
  CASE money_state WHEN 'REFUNDED' THEN 'RESERVATION_EXPIRED' END, ended_at, ended_at, at
FROM (SELECT n, CASE mod(n, 10) WHEN 0 THEN 'REFUNDED' ELSE 'SETTLED' END AS money_state,
        CASE mod(n, 10) WHEN 0 THEN 0 ELSE 50000 + mod(n, 1000) END AS charge,
        '2020-01-01'::timestamptz + n * interval '1 second' AS at,
        '2019-12-02'::timestamptz + n * interval '1 second' AS ended_at
      FROM generate_series(%(first)s::bigint, %(last)s::bigint) n) AS numbered
"""
_OUTBOX = """
WITH messages AS (
  INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status,
    retry_count, published_at, last_sent_at, handled_at, created_at)
  SELECT 'auth_error', id, 'auth.error.recorded.v1', 'auth_error:recorded:' || id,
    jsonb_build_object('authErrorId', id, 'dedupKey', repeat('ab', 32), 'occurredAt', at), repeat('ab', 32),
    'PUBLISHED', 0, at, at, at, at
  FROM (SELECT gen_random_uuid() AS id, '2020-01-01'::timestamptz + n * interval '1 second' AS at
        FROM generate_series(%(first)s::bigint, %(last)s::bigint) n) AS numbered
  RETURNING outbox_id, handled_at
)
INSERT INTO processed_message (outbox_id, status, attempts, created_at, updated_at)
SELECT outbox_id, 'DONE', 1, handled_at, handled_at FROM messages
"""
_FILLS = {"tombstones": _TOMBSTONES, "outbox": _OUTBOX}


def fill(connection: psycopg.Connection[Any], name: str, first: int, rows: int) -> None:
    """Add rows of a class, numbered from `first`. `connection` is a superuser's, with autocommit."""
    connection.execute(_TENANTS)
    connection.execute("SET session_replication_role = replica")  # no triggers
    connection.execute(_FILLS[name].encode(), {"first": first, "last": first + rows - 1})
    connection.execute("SET session_replication_role = origin")
    settle(connection, TABLES[name])


def settle(connection: psycopg.Connection[Any], tables: str) -> None:
    """Update the planner's statistics and write everything to disk, so that this is not measured."""
    connection.execute(f"VACUUM ANALYZE {tables}".encode())
    connection.execute("CHECKPOINT")


def copy_without_guards(connection: psycopg.Connection[Any]) -> None:
    """Copy the tombstones with all their indexes and CHECKs, without triggers and foreign keys."""
    connection.execute(f"CREATE TABLE {UNGUARDED} (LIKE runs INCLUDING ALL)")
    connection.execute(f"INSERT INTO {UNGUARDED} SELECT * FROM runs WHERE status = 'EXPIRED'")
    settle(connection, UNGUARDED)
