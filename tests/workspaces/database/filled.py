"""Many workspaces, a few of which differ from their desired state: for plans and benches."""

from typing import Any

import psycopg

from dpp.money.credits import create_tenant

_FILL = """
SET session_replication_role = replica;
ALTER TABLE workspaces SET (autovacuum_enabled = off);
INSERT INTO workspaces (workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by,
  deleted_at, last_access_at, standby_ttl_seconds, idle_at, conditions, phase, observed_at, operation, op_id,
  op_started_at, archive_key, home_ctx, settled_at, cleaned_at, next_look_at)
SELECT id, 't_' || n % 100, at, 'key-' || n || '-of-it', repeat('a', 64), 'home', desired, 'owner',
  CASE WHEN desired = 'DELETED' THEN at END, at, CASE WHEN desired = 'RUNNING' THEN 86400 END,
  CASE WHEN desired = 'RUNNING' THEN
    now() + CASE WHEN n % 1000 < 10 AND n <= {idle} * 100 THEN -1 ELSE 1 END * interval '1 hour' END,
  jsonb_build_object(
    'infra.process.container_ready', condition(phase = 'RUNNING', at),
    'storage.volume_ready', condition(phase <> 'ARCHIVED', at),
    'storage.archive_ready', condition(true, at), 'policy.healthy', condition(true, at)),
  phase, now() - interval '10 seconds', CASE WHEN n <= {unsettled} AND n % 10 > 0 THEN 'STOPPING' ELSE 'NONE' END, id,
  CASE WHEN n <= {unsettled} AND n % 10 > 0 THEN now() END, NULL, '{{}}', at, CASE WHEN desired = 'DELETED' THEN at END,
  CASE WHEN n <= {unsettled} AND n % 10 > 0 THEN at END
FROM (
  SELECT n, ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id, now() - n * interval '1 second' AS at,
    CASE WHEN n % 10 = 0 THEN 'DELETED' WHEN n % 3 = 0 THEN 'RUNNING' WHEN n % 3 = 1 THEN 'ARCHIVED'
         ELSE 'STANDBY' END AS desired,
    CASE WHEN n % 10 = 0 THEN 'DELETED' WHEN n <= {unsettled} OR n % 3 = 0 THEN 'RUNNING'
         WHEN n % 3 = 1 THEN 'ARCHIVED' ELSE 'STANDBY' END AS phase
  FROM generate_series(1, {workspaces}) n) AS rows;
SET session_replication_role = origin
"""
_CONDITION = """
CREATE OR REPLACE FUNCTION pg_temp.condition(is_so boolean, since timestamptz) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('status', is_so, 'reason', 'Filled', 'message', '',
    'last_transition_time', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) $$
"""


def fill(connection: psycopg.Connection[Any], *, workspaces: int, unsettled: int, idle: int) -> None:
    """Insert rows: about `unsettled` in an operation with an overdue observation, and `idle` past their TTL."""
    for number in range(100):
        create_tenant(connection, f"t_{number}", "plans", 60)
    connection.execute(_CONDITION.encode())
    text = _FILL.replace("condition(", "pg_temp.condition(")
    for statement in text.format(workspaces=workspaces, unsettled=unsettled, idle=idle).split(";\n"):
        connection.execute(statement.encode())
    connection.execute("SET synchronous_commit = on")  # otherwise an early vacuum marks no page
    connection.execute("VACUUM ANALYZE workspaces")
