"""Every change of a run's row updates the sum of charges, which equals the sum of the rows (D2)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpp.money.books import QUERIES
from dpp.platform.db.postgres import Connection
from dpp.runs import store
from tests.schema.rows import add_tenant, claimed, completed, insert, queued, refunded, tombstone
from tests.support.charges import miscounted
from tests.support.retention_batches import NO_RIGHT, ROLE, refusal
from tests.support.stored import existing

TENANTS = ("t_one", "t_two")
_KINDS = {"queued": queued, "claimed": claimed, "completed": completed, "refunded": refunded, "tombstone": tombstone}
_CHANGES = {
    "a claim ends": "UPDATE runs SET status = finalize_outcome, money_state = 'SETTLED', finalize_stage = 'COMMITTED',"
    " actual_cost_usd_micros = finalize_charge_usd_micros WHERE finalize_stage = 'CLAIMED' AND run_id = %(run)s",
    "another charge": "UPDATE runs SET actual_cost_usd_micros = %(charge)s, finalize_charge_usd_micros = %(charge)s"
    " WHERE money_state = 'SETTLED' AND run_id = %(run)s",
    "another tenant": "UPDATE runs SET tenant_id = 't_two' WHERE run_id = %(run)s",
    "given back": "UPDATE runs SET money_state = 'REFUNDED', finalize_money_state = 'REFUNDED',"
    " actual_cost_usd_micros = 0, finalize_charge_usd_micros = 0 WHERE money_state = 'SETTLED' AND status = 'FAILED'"
    " AND run_id = %(run)s",
    "nothing of money": "UPDATE runs SET updated_at = updated_at + interval '1 second' WHERE run_id = %(run)s",
    "all tombstones go": "DELETE FROM runs WHERE status = 'EXPIRED'",
}


@pytest.fixture
def connection(connection: Connection) -> Connection:
    for tenant_id in TENANTS:
        add_tenant(connection, tenant_id)
    return connection


def _row(kind: str, tenant_id: str, charge: int) -> dict[str, Any]:
    row = _KINDS[kind](tenant_id=tenant_id)
    if kind in ("completed", "tombstone"):
        row |= {"actual_cost_usd_micros": charge, "finalize_charge_usd_micros": charge}
    return row


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.tuples(st.sampled_from(sorted(_KINDS)), st.sampled_from(TENANTS), st.integers(0, 250_000)),
        min_size=1,
        max_size=12,
    ),
    changes=st.lists(
        st.tuples(st.sampled_from(sorted(_CHANGES)), st.integers(0, 11), st.integers(0, 250_000)), max_size=20
    ),
)
def test_charges_equal_the_sum_of_the_rows_after_any_change(
    connection: Connection, runs: Sequence[tuple[str, str, int]], changes: Sequence[tuple[str, int, int]]
) -> None:
    """Also after any manual statement that the schema allows."""
    with connection.transaction(force_rollback=True):
        ids = []
        for run in runs:
            row = _row(*run)
            insert(connection, row)
            ids.append(row["run_id"])
        assert miscounted(connection) == []
        for change, of, charge in changes:
            params = {"run": ids[of % len(ids)], "charge": charge}
            with connection.transaction():
                connection.execute(_CHANGES[change].encode(), params)
            assert miscounted(connection) == []


def test_runs_of_a_tenant_that_end_concurrently_are_all_charged(connection: Connection, database_url: str) -> None:
    """Eight at a time, several in one slot: none is lost, and there is no deadlock."""
    rows = [claimed(tenant_id="t_one") for _ in range(200)]
    for row in rows:
        insert(connection, row)

    def end(some: Sequence[dict[str, Any]]) -> None:
        with psycopg.connect(database_url, autocommit=True) as own:
            for row in some:
                run = existing(store.find_by_id(own, UUID(str(row["run_id"]))))
                assert store.commit(own, run, release_idempotency_key=False) is not None

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(end, [rows[first::8] for first in range(8)]))
    assert miscounted(connection) == []
    position = existing(connection.execute(QUERIES["position"], {"tenant_id": "t_one"}).fetchone())
    assert position[1] == sum(row["finalize_charge_usd_micros"] for row in rows)
    assert len(connection.execute("SELECT slot FROM ledger_charges").fetchall()) > 8


def test_rows_written_without_the_triggers_can_be_recounted(connection: Connection) -> None:
    """By one statement, also where runs were deleted."""
    insert(connection, _row("tombstone", "t_one", 70_000))
    connection.execute("DELETE FROM runs")
    insert(connection, _row("completed", "t_one", 5_000))
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        insert(connection, _row("completed", "t_one", 7_000))
        insert(connection, _row("completed", "t_two", 9_000))
        insert(connection, _row("refunded", "t_two", 0))
    assert len(miscounted(connection)) == 2
    connection.execute("SELECT count_charges_anew()")
    assert miscounted(connection) == []
    rows = connection.execute(
        "SELECT tenant_id, sum(charges_usd_micros) FROM ledger_charges GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert rows == [("t_one", 82_000), ("t_two", 9_000)]


@pytest.mark.parametrize(
    ("statement", "role", "by"),
    [
        ("DELETE FROM ledger_charges", None, "ledger_charges_stay"),
        ("TRUNCATE ledger_charges", None, "ledger_charges_stay"),
        ("UPDATE ledger_charges SET charges_usd_micros = 0", ROLE, NO_RIGHT),
        ("SELECT count_charges_anew()", ROLE, NO_RIGHT),
    ],
)
def test_charges_can_not_be_changed(connection: Connection, statement: str, role: str | None, by: str) -> None:
    """D2: no statement can delete or change the sums."""
    insert(connection, _row("completed", "t_one", 70_000))
    assert refusal(connection, statement, role=role) == by
