"""Among very many rows, a firing of the chamberlain reads what it deletes and little more (LIFE-8).

Counted is what a statement read, its triggers, foreign keys and functions among it. Those of workspaces are held to the
same in tests/workspaces/database/test_plans.py, of tombstones in tests/schema/test_plans.py.
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
"""Of these a statement may read whole: what is under way, the switches, a page of something."""
_SOME = 5
"""So often a statement may fetch a row of a table for each that it deletes: to find it, to let go of it, to ask."""
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
"""As much as of a night, as there is when nobody came for years, and that from the middle on."""
_COUNTS = "what a class takes is measured once a cleanup, at its end"
SCANS: Mapping[str, str] = {
    "use_of_results": _COUNTS,
    "use_of_prompts": _COUNTS,
    "use_of_session_logs": _COUNTS,
    "deletion_backlog": "what S3 has yet to delete is a page, or the very thing to be told",
}
"""What reads a whole table on purpose, and why."""


@pytest.fixture(scope="module")
def full(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A hundred thousand rows of each class; whatever a test does is rolled back."""
    with plans.database(postgres_server) as connection:
        fill(connection, ROWS)
        connection.execute("VACUUM ANALYZE")
        yield connection


def test_no_statement_of_a_firing_reads_a_whole_table(full: psycopg.Connection[Any]) -> None:
    """One test, since the tables are filled once for each process that runs one of a module's."""
    tried = [(name, text, due) for name, text in _OF_CLASSES for due in _DUE]
    tried += [(name, text, _DUE[0]) for name, text in _OF_CLEANUPS]
    tried += [
        ("history", store.QUERIES["history"], {"class": name, "limit": 14}) for name in ("seen", "none")
    ]
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
