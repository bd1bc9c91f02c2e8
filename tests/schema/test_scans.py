"""The scans of the jobs return every due run, page by page (RUN-20, RUN-21, RUN-22, D1, D5)."""

from datetime import datetime, timedelta
from typing import LiteralString

import pytest

from dpp.platform.db.postgres import Connection
from dpp.runs import store
from dpp.runs.store import QUERIES

_RUNS = 250  # two full pages and a half
_FILL: dict[str, LiteralString] = {
    "page_waiting": "",
    "page_unsent": "",
    "page_expired_leases": "status = 'PROCESSING', lease_token = 'l', lease_expires_at = created_at,",
    "page_stuck_claims": (
        "finalize_stage = 'CLAIMED', finalize_token = 'f', finalize_claimed_at = created_at,"
        " finalize_outcome = 'FAILED', finalize_money_state = 'REFUNDED', finalize_charge_usd_micros = 0,"
    ),
    "page_past_retention": (
        "status = 'FAILED', money_state = 'REFUNDED', actual_cost_usd_micros = 0, last_error_reason_code = 'X',"
        " finalize_stage = 'COMMITTED', finalize_token = 'f', finalize_claimed_at = created_at,"
        " finalize_outcome = 'FAILED', finalize_money_state = 'REFUNDED', finalize_charge_usd_micros = 0,"
        " retention_until = created_at,"
    ),
}
_AGELESS = {"page_expired_leases", "page_past_retention"}


@pytest.fixture
def due(connection: Connection) -> datetime:
    """Insert 250 runs of the same time, then 50 more, a second apart; returns a time after the last."""
    connection.execute(
        """
        INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key,
          payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros, timebox_sec,
          min_reliability_score, retention_until, trace_id, created_at)
        SELECT gen_random_uuid(), 't_schema', 'decision', 'v', 'QUEUED', 'RESERVED', 'key-' || lpad(n::text, 8, '0'),
          repeat('ab', 32), 250000, 5000, 90, 0.8, now(), 't',
          timestamptz '2026-01-01' + greatest(0, n - %s) * interval '1 second'
        FROM generate_series(1, %s) n
        """,
        (_RUNS, _RUNS + 50),
    )
    return datetime.fromisoformat("2026-01-01T00:01:00+00:00")


def _fill(connection: Connection, query: str) -> None:
    connection.execute("UPDATE runs SET " + _FILL[query] + " updated_at = now()")


@pytest.mark.parametrize("query", _FILL)
def test_a_page_of_runs_that_cannot_be_moved_hides_none_behind_it(
    connection: Connection, due: datetime, query: str
) -> None:
    """Although 250 of them have the same time, every run is returned once, oldest first."""
    _fill(connection, query)
    found = [(run.created_at, run.run_id) for run in store.page_through(connection, query, due)]
    expected = connection.execute("SELECT created_at, run_id FROM runs ORDER BY 1, 2").fetchall()
    assert found == expected
    assert len(found) == _RUNS + 50


@pytest.mark.parametrize("query", _FILL)
def test_no_run_is_missed_while_others_are_moved(connection: Connection, due: datetime, query: str) -> None:
    """Pages are by key, not by offset."""
    _fill(connection, query)
    connection.execute("SET session_replication_role = replica")  # otherwise only tombstones can be deleted
    seen = set()
    for run in store.page_through(connection, query, due):
        seen.add(run.run_id)
        connection.execute("DELETE FROM runs WHERE run_id = %s", (run.run_id,))
    assert len(seen) == _RUNS + 50


@pytest.mark.parametrize("query", _FILL)
def test_a_scan_returns_only_runs_that_are_due_at_the_given_time(
    connection: Connection, due: datetime, query: str
) -> None:
    """D1: ages count from `now`. The run of second n is due after its age."""
    _fill(connection, query)
    start = due - timedelta(minutes=1)
    age = 0 if query in _AGELESS else 3_600
    now = start + timedelta(seconds=age + 20.5)
    assert len(list(store.page_through(connection, query, now, age))) == _RUNS + 20
    assert list(store.page_through(connection, query, start + timedelta(seconds=age - 1), age)) == []


@pytest.mark.parametrize("query", _FILL)
def test_runs_of_another_job_are_not_returned(connection: Connection, due: datetime, query: str) -> None:
    """RUN-20 … RUN-22: only reconcile gets claimed runs, and no job disputed ones."""
    for other in _FILL:
        with connection.transaction(force_rollback=True):
            _fill(connection, other)
            found = len(list(store.page_through(connection, query, due)))
            same = query == other or {query, other} == {"page_waiting", "page_unsent"}
            assert found == (_RUNS + 50 if same else 0)
    _fill(connection, "page_stuck_claims")
    connection.execute("UPDATE runs SET money_state = 'DISPUTED'")
    assert list(store.page_through(connection, query, due)) == []


def test_a_sent_run_is_not_sent_again(connection: Connection, due: datetime) -> None:
    """D5: if it waits for too long, the sweeper gets it."""
    connection.execute("UPDATE runs SET enqueued_at = created_at")
    assert list(store.page_through(connection, "page_unsent", due)) == []
    assert len(list(store.page_through(connection, "page_waiting", due))) == _RUNS + 50


def test_every_scan_of_the_store_is_tested_here() -> None:
    """A new scan needs these tests too."""
    assert {name for name in QUERIES.names() if name.startswith("page_")} == set(_FILL)
