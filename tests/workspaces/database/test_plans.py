"""Query plans with many workspaces: each statement reads little more than its result (WS-5)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.workspaces import retention
from dpp.workspaces.store import NO_BOUND, QUERIES
from dpp_cli.local.servers import PostgresServer
from tests.support import plans
from tests.support.plans import cost, explained, nodes, pages
from tests.support.retention_batches import ROLE
from tests.workspaces.database.filled import fill

WORKSPACES, UNSETTLED, IDLE = 100_000, 60, 60
_ONE = UUID(f"00000000-0000-4000-8000-{WORKSPACES // 2:012x}")
_IN_OPERATION = UUID("00000000-0000-4000-8000-000000000001")
_PARAMS: dict[str, Any] = {
    "now": None,
    "workspace_id": _ONE,
    "workspace_ids": [_ONE, UUID(int=_ONE.int + 1)],
    "tenant_id": "t_7",
    "request_key": "key-777-of-it",
    "phase": None,
    "below": NO_BOUND,
    "above": WORKSPACES // 2,
    "limit": 50,
    "at_most": 10_000,
    "lost_after_seconds": 15,
    "seconds": 2,
    "again_after_seconds": 60,
    "lease_seconds": 60,
    "owner": uuid4(),
    "op_id": _ONE,
    "operation": "STOPPING",
    "observed_at": datetime(2026, 1, 1, tzinfo=UTC),
    "desired_by": "ttl",
}
_READS = [
    ("find", {}),
    ("find_many", {}),
    ("find_by_key", {}),
    ("page_of_tenant", {}),
    ("page_of_tenant", {"phase": "ARCHIVED"}),
    ("page_of_all", {}),
    ("page_of_all", {"tenant_id": None}),
    ("fleet_page", {}),
    ("unsettled", {}),
    ("in_error", {}),
    ("events", {}),
    ("lower_idle", {}),
    ("claim_unsettled", {}),
    ("plan_observation", {}),
    ("hand_over", {"workspace_id": _IN_OPERATION, "op_id": _IN_OPERATION}),
    ("renew_lease", {"workspace_id": _IN_OPERATION, "op_id": _IN_OPERATION}),
    ("refresh_observed_at", {}),
]


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A hundred thousand workspaces; each test is rolled back."""
    with plans.database(postgres_server) as connection:
        fill(connection, workspaces=WORKSPACES, unsettled=UNSETTLED, idle=IDLE)
        yield connection


_ROLES = {"lower_idle": "dpp_workspace_api", "refresh_observed_at": "dpp_workspace_monitor"}


def _explained(connection: psycopg.Connection[Any], query: str, **changes: Any) -> dict[str, Any]:
    """The executed plan, with the role that may run the statement."""
    role = _ROLES.get(query, "dpp_workspace_reconciler")
    return explained(connection, QUERIES[query], _PARAMS | changes, role=role)


@pytest.mark.parametrize(("query", "changes"), _READS)
def test_no_statement_scans_the_table(full: psycopg.Connection[Any], query: str, changes: dict[str, Any]) -> None:
    """WS-5: at a hundred thousand workspaces."""
    plan = _explained(full, query, **changes)
    assert [one["Node Type"] for one in nodes(plan) if one["Node Type"] == "Seq Scan"] == []
    assert pages(plan) < 1_500, plan


def test_tick_reads_only_the_workspaces_that_are_due(full: psycopg.Connection[Any]) -> None:
    plan = _explained(full, "claim_unsettled", limit=500)
    scans = [one for one in nodes(plan) if one.get("Index Name") == "workspaces_unsettled"]
    assert scans
    assert sum(one["Actual Rows"] for one in scans) <= 2 * UNSETTLED
    idle = _explained(full, "lower_idle", limit=500)
    scans = [one for one in nodes(idle) if one.get("Index Name") == "workspaces_idle"]
    assert 0 < sum(one["Actual Rows"] for one in scans) <= 2 * IDLE


_SOME_EVENTS = """
INSERT INTO workspace_events (workspace_id, happened_at, actor, kind)
SELECT workspace_id, created_at - interval '800 days', 'x', 'CREATED' FROM workspaces WHERE sequence % 2 = 0;
ANALYZE workspace_events_default"""


def test_cleanup_reads_only_what_it_deletes(full: psycopg.Connection[Any]) -> None:
    """LIFE-8: with a few due rows, and with half of them due; half of all have an event in the default partition.

    To report the number of events, up to a hundred thousand are counted once per cleanup, and so is what a day added.
    """
    limit = 500
    statements = {**retention.EVENTS.statements, **retention.WORKSPACES.statements}
    params = {"now": None, "weeks": 4, "limit": limit, "after_time": None, "after_id": None}
    with full.transaction(force_rollback=True):
        for statement in _SOME_EVENTS.split(";\n"):
            full.execute(statement.encode())
        for name, oldest in product(statements, (1_000, WORKSPACES // 2)):
            before = datetime.now(UTC) - timedelta(seconds=WORKSPACES - oldest)
            before -= timedelta(days=800) * name.endswith("_events")
            role = ROLE if name.startswith(("delete_", "drop_", "prepare_")) else None
            found = cost(full, statements[name], params | {"before": before}, role=role)
            scanned = {table for table, rows in found.scanned.items() if rows > 2_000}
            assert scanned == ({"workspace_events_default"} if name == "use_of_workspace_events" else set()), name
            if not name.startswith("use_of_"):
                assert max(found.fetched.values()) <= 5 * limit, name
