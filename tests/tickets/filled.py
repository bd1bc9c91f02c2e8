"""A database full of tickets, of which the same number is always due; for plans and for the benchmark of scans."""

from typing import Any

import psycopg

_FILL = """
SET session_replication_role = replica; -- no trigger: what a million tickets went through is of no matter here
INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status, attempts, processor_id,
  moved_by, last_processed_at, created_at, updated_at)
SELECT gen_random_uuid(), (ARRAY['DLQ_REDRIVE', 'BUDGET_CREDIT', 'EXECUTION_ENABLE', 'EXECUTION_DISABLE'])[n %% 4 + 1],
  '{{}}', 'x', 'kim',
  CASE WHEN n <= {stale} THEN 'IN_PROGRESS' WHEN n <= {stale} + {working} THEN 'IN_PROGRESS'
       WHEN n <= {stale} + {working} + {waiting} THEN 'OPEN' WHEN n %% 5 = 0 THEN 'FAILED' ELSE 'DONE' END,
  CASE WHEN n > {stale} + {working} AND n <= {stale} + {working} + {waiting} THEN 0 ELSE 1 END,
  CASE WHEN n > {stale} + {working} AND n <= {stale} + {working} + {waiting} THEN NULL ELSE 'p' END, 'p',
  CASE WHEN n <= {stale} THEN at WHEN n <= {stale} + {working} THEN now()
       WHEN n <= {stale} + {working} + {waiting} THEN NULL ELSE at END,
  at, CASE WHEN n <= {stale} OR n > {stale} + {working} THEN at ELSE now() END
FROM (SELECT n, now() - interval '2 days' - n * interval '30 seconds' AS at FROM generate_series(1, {tickets}) n);
SET session_replication_role = origin;
"""


def fill(
    connection: psycopg.Connection[Any], *, tickets: int, stale: int, working: int, waiting: int
) -> None:
    """Fill the empty table; the rest has ended. `connection` is a superuser's, with autocommit."""
    statement = _FILL.replace("%%", "%").format(
        tickets=tickets, stale=stale, working=working, waiting=waiting
    )
    # An analysis of the server's own would hold an old snapshot, and the vacuum leave pages not visible to all.
    connection.execute("ALTER TABLE tickets SET (autovacuum_enabled = off)")
    # So does a vacuum that comes before the commit of the rows was flushed, which a server that isn't durable puts off.
    connection.execute("SET synchronous_commit = on")
    for one in statement.split(";\n"):
        connection.execute(one.encode())
    connection.execute("VACUUM ANALYZE tickets")
