"""Cost of scans of runs and the outbox, and of an audit, as tables grow: `python -m bench.run_scans [rows …]`.

At each number of rows the same few are due: 200 runs for each scan of the reaper, the sweeper, reconcile and retention,
and 500 events for the publisher, which claims 50. Every scan is read to its end, page by page, as its job reads it;
what the job would do with each run costs the same at any size of the table. The floor is measured in the same run on
the same rows: the same runs read by their primary key, and the same events updated by it. Everything is rolled back.

Half of all runs belong to one tenant, whose books reconcile reads each minute. *sum of rows* is the same figure added
up from the tenant's rows.
"""

import statistics
import sys
from collections.abc import Callable, Mapping
from uuid import UUID, uuid4

from bench.support.scans import Connection, compare, medians_ms, timed
from dpp.auth_errors.outbox import tables
from dpp.money.books import QUERIES as BOOKS
from dpp.runs import store

DUE = 200
EVENTS_DUE, CLAIMED = 500, 50
ROUNDS, ROUNDS_OF_SUM = 40, 5
SCANS: Mapping[str, tuple[str, int]] = {
    "reaper": ("page_expired_leases", 0),
    "sweeper": ("page_waiting", 3_600),
    "stuck claims": ("page_stuck_claims", 300),
    "unsent": ("page_unsent", 60),
    "retention": ("page_past_retention", 0),
}
# `kind` is what a run is due for.
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
_SUM_OF_ROWS = """
SELECT (SELECT sum(actual_cost_usd_micros) FROM runs WHERE tenant_id = %(tenant_id)s AND money_state = 'SETTLED'),
  (SELECT sum(reservation_max_cost_usd_micros) FROM runs
    WHERE tenant_id = %(tenant_id)s AND money_state IN ('RESERVED', 'DISPUTED'))
"""
_FLOOR_RUNS = "SELECT * FROM runs WHERE run_id = ANY(%s)"
_FLOOR_EVENTS = """
UPDATE outbox_message SET status = 'PROCESSING', processing_owner = gen_random_uuid(), processing_since = now(),
  next_retry_at = NULL WHERE outbox_id = ANY(%s) RETURNING *
"""


def measured(connection: Connection, rows: int) -> dict[str, float]:
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(_FILL.format(rows=rows, due=DUE, events=EVENTS_DUE).encode())
        connection.execute("SELECT count_charges_anew()")
    connection.execute("VACUUM ANALYZE")
    calls = {name: _scan(connection, *scan) for name, scan in SCANS.items()}
    for name, call in calls.items():
        assert call() >= DUE, name
    due = [UUID(run.id) for run in store.page_through(connection, "page_stuck_claims", None, 300)][:DUE]
    with connection.transaction(force_rollback=True):
        events = [one.outbox_id for one in tables.claim(connection, uuid4(), CLAIMED)]
    calls["outbox claim"] = lambda: len(tables.claim(connection, uuid4(), CLAIMED))
    calls["audit"] = lambda: len(connection.execute(BOOKS["position"], _HOT).fetchall())
    calls["floor, runs"] = lambda: len(connection.execute(_FLOOR_RUNS, (due,)).fetchall())
    calls["floor, events"] = lambda: len(connection.execute(_FLOOR_EVENTS, (events,)).fetchall())
    found = medians_ms(connection, calls, ROUNDS, "outbox_message")

    def add_up() -> None:
        connection.execute(_SUM_OF_ROWS, _HOT).fetchall()

    # Not in turn with the others: it reads so much that their pages would no longer be in memory.
    times = [timed(connection, add_up) for _ in range(ROUNDS_OF_SUM)]
    return found | {"sum of rows": 1_000 * statistics.median(times)}


def _scan(connection: Connection, query: str, age_seconds: int) -> Callable[[], int]:
    """Reads a scan to its end and counts its runs."""
    return lambda: sum(1 for _ in store.page_through(connection, query, None, age_seconds))


if __name__ == "__main__":
    about = f"{DUE} runs are due for each scan, {EVENTS_DUE} events, of which {CLAIMED} are claimed"
    sys.exit(compare(measured, about, [*SCANS, "outbox claim", "audit"]))
