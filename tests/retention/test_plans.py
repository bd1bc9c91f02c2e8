"""A tick of the cleaner on large tables reads little more than it deletes (LIFE-8).

The counts include the reads of triggers, foreign keys and functions. tests/workspaces/database/test_plans.py checks
workspaces in the same way, tests/schema/test_plans.py tombstones.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from dpp.auth_errors import retention as auth_errors
from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.retention import classes, store
from dpp.tickets import retention as tickets
from dpp_cli.local.servers import PostgresServer
from tests.retention.filled import fill
from tests.support import plans
from tests.support.plans import cost
from tests.support.retention_batches import ROLE

ROWS = 100_000
_BATCH = 500
_FEW = 2_000
"""Tables with at most this many rows may be scanned: open items, switches, a page."""
_SOME = 5
"""Maximum rows of a table that a statement may fetch per deleted row: to find it, to delete it, to check blockers."""
_NOW = datetime.now(UTC)
_OLDEST = _NOW - timedelta(minutes=10 * ROWS)
_HALF = _NOW - timedelta(minutes=5 * ROWS)
_QUARTER = _NOW - timedelta(minutes=7.5 * ROWS)
_AN_ID = UUID(f"00000000-0000-4000-8000-{ROWS // 2:012x}")
_AN_OLD_ID = UUID(f"00000000-0000-4000-8000-{ROWS - 900:012x}")
_PARAMS: dict[str, Any] = {
    "now": None,
    "limit": _BATCH,
    "after_time": None,
    "after_id": None,
    "cleanup_id": _AN_ID,
    "kind": "MANUAL",
    "day": date(2020, 1, 1),
    "requested_by": "x",
    "over_breaker": False,
    "class": "seen",
    "position": 1,
    "due": 1,
    "allowed": 1,
    "examined": 1,
    "deleted": 1,
    "bytes": 1,
    "cursor_time": None,
    "cursor_id": None,
    "status": "DONE",
    "oldest_left_at": None,
    "error": "x",
    "most": 5,
    "usage": Jsonb([]),
    "warnings": Jsonb([]),
    "reason": "x",
    "keys": [f"gone/{number}" for number in range(1, 1_001)],
    "key": "gone/1",
    "days": 7,
    "role": "KING",
}
_OF_CLASSES = [
    (name, text)
    for one in (*classes.CLASSES, *tickets.CLASSES, *auth_errors.CLASSES)
    for name, text in one.statements.items()
]
_OF_CLEANUPS = [
    (name, queries[name])
    for queries in (store.QUERIES, heartbeat.QUERIES)
    for name in queries.names()
    if name != "history"
]
_DUE: tuple[dict[str, Any], ...] = (
    {"before": _OLDEST + timedelta(days=3)},
    {"before": _HALF},
    {"before": _HALF, "after_time": _QUARTER},
)
"""One night's rows, the rows of years without a cleanup, and those from the middle on."""
_COUNTS = "classes are measured once per cleanup, at its end"
SCANS: Mapping[str, str] = {
    "use_of_results": _COUNTS,
    "use_of_prompts": _COUNTS,
    "use_of_session_logs": _COUNTS,
    "deletion_backlog": "the list is short, unless its length is the problem to report",
}
"""Statements that scan a table on purpose, and the reason."""


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A hundred thousand rows of each class; a test's changes are rolled back."""
    with plans.database(postgres_server) as connection:
        fill(connection, ROWS)
        connection.execute("VACUUM ANALYZE")
        yield connection


def test_no_statement_of_a_tick_scans_a_whole_table(full: psycopg.Connection[Any]) -> None:
    """One test, since each process that runs a test of this module fills the tables."""
    tried = [(name, text, due) for name, text in _OF_CLASSES for due in _DUE]
    tried += [(name, text, _DUE[0]) for name, text in _OF_CLEANUPS]
    tried += [("history", store.QUERIES["history"], {"class": name, "limit": 14}) for name in ("seen", "none")]
    scanned: dict[str, set[str]] = {}
    fetched: dict[str, dict[str, int]] = {}
    for name, text, changes in tried:
        role = ROLE if name.startswith("delete_") else None
        found = cost(full, text, _PARAMS | changes, role=role)
        if tables := {table for table, rows in found.scanned.items() if rows > _FEW}:
            scanned.setdefault(name, set()).update(tables)
        if many := {table: rows for table, rows in found.fetched.items() if rows > _SOME * _BATCH}:
            fetched[name] = many
    assert scanned.keys() == SCANS.keys(), scanned
    assert fetched == {}
