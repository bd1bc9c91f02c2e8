"""The charges of deleted runs stay in the books (D2, LIFE-8)."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpp.money.books import QUERIES, read_books
from dpp.platform.db.postgres import Connection
from dpp.runs.jobs import retention
from tests.schema import rows
from tests.support.retention_batches import APPEND_ONLY, NO_RIGHT, ROLE, deleted, named, refusal

TENANTS = ("t_one", "t_two", "t_three")
TODAY = datetime(2026, 6, 1, tzinfo=UTC)
TOMBSTONES = named(retention.CLASSES, "tombstones")
_KINDS = {
    "queued": rows.queued,
    "processing": rows.processing,
    "claimed": rows.claimed,
    "completed": rows.completed,
    "refunded": rows.refunded,
    "tombstone": rows.tombstone,
    "refunded tombstone": rows.refunded_tombstone,
}


@pytest.fixture
def connection(connection: Connection) -> Connection:
    for tenant_id in TENANTS:
        rows.add_tenant(connection, tenant_id)
        connection.execute(
            "INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason)"
            " VALUES (gen_random_uuid(), %s, 10000000, 'x')",
            (tenant_id,),
        )
    return connection


def _row(kind: str, tenant_id: str, charge: int, days: int) -> dict[str, Any]:
    row = _KINDS[kind](tenant_id=tenant_id, updated_at=TODAY - timedelta(days=days))
    if kind in ("completed", "tombstone"):
        row |= {"actual_cost_usd_micros": charge, "finalize_charge_usd_micros": charge}
    return row


def _books(connection: Connection) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for tenant_id in TENANTS:
        books = read_books(connection, tenant_id, [])
        position = connection.execute(QUERIES["position"], {"tenant_id": tenant_id}).fetchone()
        found.append((books.credits_minus_charges, sorted(books.open_runs), sorted(books.credits), position))
    return found


_RUNS = st.lists(
    st.tuples(st.sampled_from(sorted(_KINDS)), st.sampled_from(TENANTS), st.integers(0, 250_000), st.integers(0, 500)),
    max_size=30,
)
_CLEANUPS = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 7)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=_RUNS, cleanups=_CLEANUPS)
def test_no_deletion_changes_the_books(
    connection: Connection, runs: list[tuple[str, str, int, int]], cleanups: list[tuple[int, int]]
) -> None:
    """D2: for any set of runs and any batches of deleted tombstones."""
    with connection.transaction(force_rollback=True):
        for run in runs:
            rows.insert(connection, _row(*run))
        before = _books(connection)
        for days, limit in cleanups:
            deleted(connection, TOMBSTONES, TODAY - timedelta(days=days), limit=limit)
            assert _books(connection) == before
        oldest = min(days for days, _ in cleanups)
        gone = [run for run in runs if "tombstone" in run[0] and run[3] > oldest]
        carried = connection.execute("SELECT tenant_id, charges_usd_micros, runs FROM ledger_carried").fetchall()
        assert sorted(carried) == sorted(
            (
                tenant_id,
                sum(charge for kind, of, charge, _ in gone if of == tenant_id and kind == "tombstone"),
                sum(of == tenant_id for _, of, _, _ in gone),
            )
            for tenant_id in {of for _, of, _, _ in gone}
        )
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (len(runs) - len(gone),)


def test_the_charge_of_a_tombstone_that_an_operator_deletes_stays_too(connection: Connection) -> None:
    """D2: a trigger of the table carries it over, so nobody can forget to."""
    rows.insert(connection, _row("tombstone", "t_one", 70_000, 500))
    rows.insert(connection, _row("refunded tombstone", "t_two", 0, 500))
    before = _books(connection)
    connection.execute("DELETE FROM runs")
    assert _books(connection) == before
    assert connection.execute("SELECT tenant_id, charges_usd_micros, runs FROM ledger_carried").fetchall() == [
        ("t_one", 70_000, 1),
        ("t_two", 0, 1),
    ]


def test_a_deletion_that_is_rolled_back_carries_nothing(connection: Connection) -> None:
    """D2: row and charge change in one statement."""
    rows.insert(connection, _row("tombstone", "t_one", 70_000, 500))
    before = _books(connection)
    with connection.transaction(force_rollback=True):
        assert deleted(connection, TOMBSTONES, TODAY) == 1
    assert _books(connection) == before
    assert connection.execute("SELECT count(*) FROM ledger_carried").fetchone() == (0,)


@pytest.mark.parametrize(
    ("statement", "role", "by"),
    [
        ("DELETE FROM ledger_carried", None, "ledger_carried_stays"),
        ("TRUNCATE ledger_carried", None, "ledger_carried_stays"),
        ("UPDATE ledger_carried SET charges_usd_micros = 0, runs = 2", None, "ledger_carried_only_grows"),
        ("UPDATE ledger_carried SET charges_usd_micros = 80000", None, "ledger_carried_only_grows"),
        ("UPDATE ledger_carried SET charges_usd_micros = 0, runs = 2", ROLE, NO_RIGHT),
        ("INSERT INTO ledger_carried VALUES ('t_two', 0, 1, now())", ROLE, NO_RIGHT),
        ("DELETE FROM budget_credits", ROLE, NO_RIGHT),
        ("DELETE FROM budget_credits", None, APPEND_ONLY),
        ("DELETE FROM ledger_rebuilds", ROLE, NO_RIGHT),
        ("TRUNCATE runs CASCADE", None, "runs_are_not_truncated"),
        ("TRUNCATE runs CASCADE", ROLE, NO_RIGHT),
        ("UPDATE runs SET actual_cost_usd_micros = 0", ROLE, NO_RIGHT),
    ],
)
def test_carried_charges_can_not_be_changed(connection: Connection, statement: str, role: str | None, by: str) -> None:
    """D2: also not by the role that may delete tombstones."""
    rows.insert(connection, _row("tombstone", "t_one", 70_000, 500))
    assert deleted(connection, TOMBSTONES, TODAY) == 1
    rows.insert(connection, _row("completed", "t_one", 70_000, 500) | {"idempotency_key": f"key-{uuid4()}"})
    assert refusal(connection, statement, role=role) == by
