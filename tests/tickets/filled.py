"""A database full of tickets, with a constant number of due ones; for plan tests and the benchmark of scans."""

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


def fill(connection: psycopg.Connection[Any], *, tickets: int, stale: int, working: int, waiting: int) -> None:
    """Fill the empty table; all other tickets have ended. `connection` belongs to a superuser, with autocommit."""
    statement = _FILL.replace("%%", "%").format(tickets=tickets, stale=stale, working=working, waiting=waiting)
    # Without autovacuum: its snapshot would keep the vacuum below from marking all pages as visible.
    connection.execute("ALTER TABLE tickets SET (autovacuum_enabled = off)")
    # A vacuum before the flush of the commit has the same effect; a server without fsync delays that flush.
    connection.execute("SET synchronous_commit = on")
    for one in statement.split(";\n"):
        connection.execute(one.encode())
    connection.execute("VACUUM ANALYZE tickets")
