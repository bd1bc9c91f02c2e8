"""What a request and a run need is prepared, and outlives a migration and a server that forgot."""

from uuid import uuid4

import psycopg
import pytest

from dpp.platform.errors import PostgresUnavailable
from dpp.platform.keys import api_keys
from dpp.runs import store, submit_store
from dpp.runs.execute import WorkOutcome, execute
from dpp.runs.machine import FinalizeStage
from tests.support.world import Tenant, World, message_of

_BY_A_RUN = (
    "select_api_key",
    "insert_run",
    "mark_enqueued",
    "run_of_key",
    "run_with_inputs",
    "start_processing",
    "claim",
    "commit",
    "run_of_owner",
)


def _a_life(world: World, tenant: Tenant) -> None:
    """A run as its client and its worker see it, by the world's one connection."""
    key = f"key-{uuid4()}"
    with world.database.connection() as connection:
        assert api_keys.verify(connection, tenant.token) is not None
    run = world.submit(tenant, idempotency_key=key).run
    assert execute(message_of(run), "receipt", world.work_effects()).outcome == WorkOutcome.ENDED
    with world.database.connection() as connection:
        found = store.find_for_owner(connection, run.tenant_id, run.run_id)
        repeated = submit_store.find_by_key(connection, run.tenant_id, key)
    assert found is not None
    assert found[0].finalize_stage == FinalizeStage.COMMITTED
    assert repeated == found[0]


def _prepared(world: World) -> dict[str, int]:
    """How often each prepared statement was run, by its text's beginning."""
    with world.database.connection() as connection:
        rows = connection.execute(
            "SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements"
        ).fetchall()
    return {str(statement)[:30]: int(times) for statement, times in rows}


def test_all_that_a_run_needs_is_prepared_once(world: World) -> None:
    """The second run prepares nothing."""
    tenant = world.tenant()
    _a_life(world, tenant)
    once = _prepared(world)
    _a_life(world, tenant)
    twice = _prepared(world)
    assert once.keys() == twice.keys()
    assert len(once) == len(_BY_A_RUN)
    assert all(twice[statement] == once[statement] + 1 for statement in once)


def test_warm_containers_go_on_after_a_migration_that_adds_columns(world: World) -> None:
    """Postgres refuses a prepared statement whose answer would have other columns than before."""
    tenant = world.tenant()
    _a_life(world, tenant)
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        for table in ("runs", "run_inputs", "api_keys", "tenants", "execution_switches"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN added text DEFAULT 'x'".encode())
    _a_life(world, tenant)


def test_a_server_that_forgot_what_was_prepared_is_left(world: World) -> None:
    """As after a proxy's fault: nothing took effect, and the next use has a connection of its own."""
    tenant = world.tenant()
    _a_life(world, tenant)
    with world.database.connection() as connection:
        connection.pgconn.exec_(b"DEALLOCATE ALL")  # behind psycopg's back
    run_before = _count(world)
    with pytest.raises(PostgresUnavailable):
        world.submit(tenant)
    assert _count(world) == run_before
    _a_life(world, tenant)


def _count(world: World) -> int:
    with psycopg.connect(world.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM runs").fetchone()
    assert row is not None
    return int(row[0])
