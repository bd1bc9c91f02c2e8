"""Statements that name their row find it by its key, even with planner statistics of a quiet hour.

In such statistics a partial index of work under way looks empty and as cheap as the key, and so do the runs of a new
tenant. Reading it whole for each run or event would cost the square of a backlog. Statistics are renewed only after a
tenth of a table has changed, which a backlog may never do.
"""

from collections.abc import Iterator
from typing import LiteralString
from uuid import uuid4

import pytest

from bench.cleanup.rows import fill
from dpp.auth_errors.outbox import tables
from dpp.platform.db.postgres import Connection
from dpp.runs import store
from dpp_cli.local.servers import PostgresServer
from tests.schema.test_plans import _PARAMS
from tests.support.plans import database

_BY_RUN = (
    "run",
    "mark_enqueued",
    "start_processing",
    "park",
    "extend_lease",
    "claim",
    "of_finalize_token",
    "reclaim",
    "commit",
    "dispute",
    "resolve",
    "run_of_owner",
    "run_with_inputs",
)
_BY_EVENT = ("claim", "take_over", "mark_published", "put_back")
_MANY = 20_000


@pytest.fixture(scope="module")
def quiet(postgres_server: PostgresServer) -> Iterator[Connection]:
    """A database in which all runs have ended and all events are handled."""
    with database(postgres_server) as connection:
        fill(connection, "tombstones", 1, _MANY)
        fill(connection, "outbox", 1, _MANY)
        yield connection


def _plan(connection: Connection, query: LiteralString, params: dict[str, object]) -> str:
    with connection.transaction(force_rollback=True):
        return "\n".join(str(line) for (line,) in connection.execute("EXPLAIN " + query, params))


@pytest.mark.parametrize("name", _BY_RUN)
def test_a_run_is_found_by_its_id(quiet: Connection, name: str) -> None:
    """D1: by the primary key, whatever its state."""
    plan = _plan(quiet, store.QUERIES[name], {**_PARAMS, "run_id": uuid4()})
    assert "using runs_pkey on runs" in plan, plan
    assert plan.count(" on runs ") <= 2, plan  # the update and its access to the row


@pytest.mark.parametrize("name", _BY_EVENT)
def test_an_event_is_found_by_its_key(quiet: Connection, name: str) -> None:
    """AUTH-4: also the earlier events of the same error."""
    params: dict[str, object] = {
        "now": None,
        "owner": uuid4(),
        "limit": 50,
        "silent_seconds": 60,
        "outbox_ids": [1, 2],
        "outbox_id": 1,
        "retry_count": 1,
        "next_retry_at": None,
        "error": "x",
    }
    plan = _plan(quiet, tables.QUERIES[name], params)
    assert "using outbox_message_pkey on outbox_message" in plan, plan
    assert "outbox_message_to_go" not in plan, plan
