"""Of many tickets, one in a hundred of them stale, each scan reads what it takes and little more (TIX-1).

At a million, which takes a minute to fill, `make bench-scans` asks the same plans and measures the time.
"""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from dpp.tickets.store import QUERIES
from dpp_cli.local.servers import PostgresServer
from tests.support import plans
from tests.support.plans import explained, nodes, pages
from tests.tickets.environment import A_DAY
from tests.tickets.filled import fill

_MAX_CLEAN = 50
_PARAMS: dict[str, Any] = {
    "now": None,
    "threshold_seconds": A_DAY,
    "excluded": ["EXECUTION_ENABLE"],
    "max_clean": _MAX_CLEAN,
    "limit": _MAX_CLEAN,
    "processor_id": "TICKET_REAPER",
    "message": "m",
    "silent_seconds": 600,
    "max_attempts": 5,
    "below": 2**63 - 1,
    "status": None,
    "request_type": None,
    "request_id": UUID(int=7),
    "attempts": 1,
}
_PAGES_OF_A_CLEANING = 40 * _MAX_CLEAN
"""Two rows and their entries in six indexes for each that is cleaned, and the way down to the first."""


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """Two hundred thousand tickets; each test is rolled back."""
    with plans.database(postgres_server) as connection:
        fill(connection, tickets=200_000, stale=2_000, working=200, waiting=100)
        yield connection


def _explained(connection: psycopg.Connection[Any], query: str, **changes: Any) -> dict[str, Any]:
    # Remove rows that other tests rolled back; their dead index entries would be counted.
    connection.execute("VACUUM (INDEX_CLEANUP ON) tickets")
    return explained(connection, QUERIES[query], _PARAMS | changes)


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [node for node in nodes(plan) if node.get("Relation Name") == "tickets" and "Scan" in node["Node Type"]]


def test_reaper_reads_only_the_tickets_that_it_ends(full: psycopg.Connection[Any]) -> None:
    plan = _explained(full, "reap")
    (first, *others) = scans(plan)
    looked = [scan for scan in (first, *others) if scan.get("Index Name") == "tickets_in_progress"]
    assert looked, json.dumps(plan)
    # In index order without a sort, up to the last ticket that is ended; one in four has the excluded type.
    assert sum(scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) for scan in looked) <= 2 * _MAX_CLEAN
    assert pages(plan) < _PAGES_OF_A_CLEANING
    assert plan["Actual Rows"] == _MAX_CLEAN


def test_backlog_is_counted_in_the_index(full: psycopg.Connection[Any]) -> None:
    """All stale tickets are counted without reading their rows."""
    plan = _explained(full, "backlog")
    (scan,) = scans(plan)
    assert (scan["Node Type"], scan["Index Name"]) == ("Index Only Scan", "tickets_in_progress")
    assert scan["Heap Fetches"] == 0
    assert pages(plan) < 200


@pytest.mark.parametrize(
    ("query", "changes", "at_most"),
    [
        # An insert into a full index page reads tens of rows to find a dead one before it splits the page.
        ("take_open", {}, 200),
        ("take_again", {}, 200),
        ("page_stale", {}, 200),
        ("page_tickets", {}, 100),
        ("page_tickets", {"status": "OPEN"}, 150),
        ("page_tickets", {"status": "FAILED"}, 100),
        ("page_tickets", {"request_type": "BUDGET_CREDIT"}, 250),
        ("ticket", {}, 10),
        ("finish", {"status": "DONE"}, 10),
        ("count_waiting", {}, 250),
    ],
)
def test_queries_read_only_their_rows(
    full: psycopg.Connection[Any], query: str, changes: dict[str, Any], at_most: int
) -> None:
    plan = _explained(full, query, **changes)
    assert "Seq Scan" not in {node["Node Type"] for node in scans(plan)}, json.dumps(plan)
    assert pages(plan) <= at_most, json.dumps(plan)


def test_ended_tickets_are_counted_for_a_week_only(full: psycopg.Connection[Any]) -> None:
    plan = _explained(full, "count_ended")
    assert {scan.get("Index Name") for scan in scans(plan)} == {"tickets_ended"}
