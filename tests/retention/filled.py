"""Fills every table with many rows, one per ten minutes back from now, and a few that are in progress."""

from typing import Any

import psycopg

_FILL = """
SET session_replication_role = replica;
INSERT INTO tenants (tenant_id, display_name) VALUES ('t_filled', 'x');
CREATE TEMPORARY TABLE numbers AS SELECT n, now() - n * interval '10 minutes' AS at, n <= {open} AS open,
  'github:o/r/issues/' || n AS event_id, 'task-20260101-' || lpad(n::text, 7, '0') AS task_id,
  ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id FROM generate_series(1, {rows}) n;
INSERT INTO lifecycle_seen SELECT event_id, at FROM numbers;
INSERT INTO lifecycle_events (event_id, source, kind, arrived_by, payload, happened_at, status, created_at,
  dispatched_at, ended_at)
SELECT event_id, 'GITHUB', 'MENTIONED', 'POLL', '{{"title": "x"}}', at,
  CASE WHEN open THEN 'DISPATCHED' ELSE 'COMPLETED' END, at, at, CASE WHEN NOT open THEN at END FROM numbers;
INSERT INTO lifecycle_tasks (task_id, event_id, kind, subject, status, outcome, attempt, next_look_at, created_at,
  started_at, ended_at)
SELECT task_id, event_id, 'MENTIONED', '{{"title": "x"}}', CASE WHEN open THEN 'IN_PROGRESS' ELSE 'COMPLETED' END,
  CASE WHEN NOT open THEN 'SUCCEEDED' END, 1, at, at, at, CASE WHEN NOT open THEN at END FROM numbers;
INSERT INTO lifecycle_messages (message_id, kind, task_id, dedup_key, body, status, attempts, next_attempt_at,
  created_at, sent_at)
SELECT replace(task_id, 'task', 'msg'), 'TASK_RESULT', task_id, task_id, 'x',
  CASE WHEN open THEN 'PENDING' ELSE 'SENT' END, 1, at, at, CASE WHEN NOT open THEN at END FROM numbers;
INSERT INTO lifecycle_threads SELECT task_id, 'C1', task_id, at FROM numbers WHERE open;
INSERT INTO lifecycle_awaiting SELECT task_id, 'm', at FROM numbers WHERE open;
INSERT INTO lifecycle_objects SELECT 'state/' || task_id || '.' || n % 3,
  (ARRAY['RESULT', 'PROMPT', 'SESSION_LOG'])[n % 3 + 1], task_id, 100, at FROM numbers;
INSERT INTO lifecycle_deletions SELECT 'gone/' || n, at, n % 2, at, NULL FROM numbers;
INSERT INTO cleanups (cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings)
SELECT id, CASE WHEN n % 2 = 0 THEN 'DAILY' ELSE 'MANUAL' END, date '2026-01-01' - n, 'x', false, 'DONE', at, at,
  '[]', '[]' FROM numbers ORDER BY n DESC;
INSERT INTO cleanup_classes (cleanup_id, class, position, status, before, examined, deleted)
SELECT id, (ARRAY['seen', 'tasks', 'prompts'])[n % 3 + 1], 0, 'DONE', at, 1, 1 FROM numbers;
INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status, attempts, processor_id,
  moved_by, last_processed_at, created_at, updated_at)
SELECT id, 'DLQ_REDRIVE', '{{}}', 'x', 'kim', CASE WHEN open THEN 'IN_PROGRESS' ELSE 'DONE' END, 1, 'p', 'p', at, at, at
FROM numbers;
INSERT INTO ticket_results SELECT id, 'p', 'DONE', at, 'done' FROM numbers WHERE NOT open;
INSERT INTO ticket_transitions (request_id, from_status, to_status, actor, attempt, happened_at)
SELECT id, NULL, 'OPEN', 'kim', 0, at FROM numbers UNION ALL SELECT id, 'OPEN', 'DONE', 'p', 1, at FROM numbers;
INSERT INTO ops_run_receipts (run_id, started_at, finished_at, outcome, receipt)
SELECT id, at, CASE WHEN NOT open THEN at END, CASE WHEN open THEN 'RUNNING' ELSE 'COMPLETED' END, '{{}}' FROM numbers;
INSERT INTO ticket_reaper_reports (asof, actor, breaker_tripped, snapshot_key, report, published_at)
SELECT at, 'x', false, 'k' || n, '{{}}', CASE WHEN NOT open THEN at END FROM numbers ORDER BY n DESC;
INSERT INTO execution_switches (scope, enabled, decision_id, actor, reason, decided_at)
SELECT scope, true, gen_random_uuid(), 'x', 'x', now() FROM unnest(ARRAY['*', 'ocr']) AS scope;
INSERT INTO auth_error (auth_error_id, reported_by, dedup_key, payload_hash, occurred_at, http_status, exception_class,
  stacktrace, status, retry_count, analyzed_at, moved_by, created_at, updated_at)
SELECT id, 't_filled', 'r' || n, repeat('a', 64), at, 401, 'com.example.E', 'at x',
  CASE WHEN open THEN 'ANALYSIS_COMPLETED' ELSE 'RESOLVED' END, 0, at, 'x', at, at FROM numbers;
INSERT INTO auth_error_transition (auth_error_id, from_status, to_status, actor, happened_at)
SELECT id, NULL, 'NEW', 'x', at FROM numbers UNION ALL SELECT id, 'NEW', 'RESOLVED', 'x', at FROM numbers;
INSERT INTO auth_error_decision (decision_id, auth_error_id, decision_type, decided_by, actor, reason, inputs,
  from_status, to_status, decided_at)
SELECT id, id, 'RESOLVE', 'OPERATOR', 'x', 'x', '{{}}', 'NEW', 'RESOLVED', at FROM numbers WHERE NOT open;
INSERT INTO auth_error_cluster SELECT id, 'v1', lpad(to_hex(n), 64, '0'), 'com.example.E', 1, at, at
FROM numbers;
INSERT INTO auth_error_cluster_item
SELECT id, id, at, n, at FROM numbers;
INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status,
  retry_count, published_at, last_sent_at, handled_at, created_at)
SELECT 'auth_error', id, 'auth.error.recorded.v1', 'auth_error:recorded:' || id,
  jsonb_build_object('authErrorId', id::text), repeat('a', 64), 'PUBLISHED', 0, at, at,
  CASE WHEN NOT open THEN at END, at FROM numbers WHERE n % 2 = 0 OR open;
INSERT INTO processed_message (outbox_id, status, attempts, created_at, updated_at)
SELECT outbox_id, 'DONE', 1, created_at, created_at FROM outbox_message WHERE handled_at IS NOT NULL;
SET session_replication_role = origin;
DROP TABLE numbers"""


def fill(connection: psycopg.Connection[Any], rows: int, *, open_rows: int = 50) -> None:
    """Add `rows` of each class, `open_rows` of them in progress; every other authentication error has an outbox
    event."""
    for statement in _FILL.format(rows=rows, open=open_rows).split(";\n"):
        connection.execute(statement.encode())
