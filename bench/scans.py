"""Cost of a scan of the ticket reaper as its table grows: `python -m bench.scans [rows …]` (`make bench-scans`).

At each number of rows the same amount is due: 500 stale tickets, of which the ticket reaper ends 50. Its floor is
measured in the same run on the same rows: the same 50 rows updated by their primary key, and the same 50 results
inserted. Everything is rolled back, so every round finds the same rows.
"""

import sys
from typing import Any

from bench.support.scans import Connection, compare, medians_ms
from dpp.tickets import store
from dpp.tickets.staleness import Breaker, ReaperRules
from tests.tickets.filled import fill

STALE, WORKING, WAITING = 500, 500, 100
RULES = ReaperRules(threshold_seconds=86_400, max_clean=50, breaker=Breaker(max_stale=10_000, max_share=1))
_FLOOR_UPDATE = """
UPDATE tickets SET current_status = 'FAILED', moved_by = 'x', updated_at = greatest(now(), updated_at)
WHERE request_id = ANY(%s)
"""
_FLOOR_INSERT = """
INSERT INTO ticket_results (request_id, processor_id, status, processed_at, message)
SELECT unnest(%s::uuid[]), 'TICKET_REAPER', 'FAILED', now(), 'm'
"""


def measured(connection: Connection, rows: int) -> dict[str, float]:
    """Medians, and how many pages a reap touches."""
    fill(connection, tickets=rows, stale=STALE, working=WORKING, waiting=WAITING)
    due = [ticket.request_id for ticket in store.page_stale(connection, RULES, RULES.max_clean)]

    def floor() -> None:
        connection.execute(_FLOOR_UPDATE, (due,))
        connection.execute(_FLOOR_INSERT, (due,))

    calls = {
        "backlog": lambda: store.backlog(connection, RULES),
        "reap": lambda: store.reap(connection, RULES),
        "floor": floor,
    }
    found = medians_ms(connection, calls, 60, "tickets, ticket_results, ticket_transitions")
    return found | {"reap / floor": found["reap"] / found["floor"], "pages": _pages_of_a_reap(connection)}


def _pages_of_a_reap(connection: Connection) -> int:
    params: dict[str, Any] = {
        "now": None,
        "threshold_seconds": RULES.threshold_seconds,
        "excluded": [],
        "max_clean": RULES.max_clean,
        "processor_id": "TICKET_REAPER",
        "message": "m",
    }
    text = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + store.QUERIES["reap"]
    with connection.transaction(force_rollback=True):
        row = connection.execute(text.encode(), params).fetchone()
    plan = row[0][0]["Plan"] if row else {}
    return int(plan.get("Shared Hit Blocks", 0) + plan.get("Shared Read Blocks", 0))


if __name__ == "__main__":
    about = f"{STALE} tickets are stale, {RULES.max_clean} of them are ended"
    sys.exit(compare(measured, about, ["reap"]))
