"""The statements of requests and runs are prepared, and survive a migration and a server that forgot them."""

from uuid import uuid4

import psycopg
import pytest

from dpp.platform.errors import PostgresUnavailable
from dpp.platform.keys import api_keys
from dpp.runs import store, submit_store
from dpp.runs.execute import WorkOutcome, execute
from dpp.runs.machine import FinalizeStage
from tests.support.world import Tenant, World, message_of

pytestmark = pytest.mark.usefixtures("own_sessions")

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


def _submit_and_execute(world: World, tenant: Tenant) -> None:
    """Submit, read, repeat and execute a run on the world's one connection."""
    key = f"key-{uuid4()}"
    assert world.using(api_keys.verify, tenant.token) is not None
    run = world.submit(tenant, idempotency_key=key).run
    assert execute(message_of(run), "receipt", world.work_effects()).outcome == WorkOutcome.ENDED
    found = world.using(store.find_for_owner, run.tenant_id, run.run_id)
    repeated = world.using(submit_store.find_by_key, run.tenant_id, key)
    assert found is not None
    assert found[0].finalize_stage == FinalizeStage.COMMITTED
    assert repeated == found[0]


def _prepared(world: World) -> dict[str, int]:
    """Return how often each prepared statement was executed, by the beginning of its text."""
    rows = world.sql("SELECT statement, generic_plans + custom_plans FROM pg_prepared_statements")
    return {str(statement)[:30]: int(times) for statement, times in rows}


def test_every_statement_of_a_run_is_prepared_once(world: World) -> None:
    """The second run prepares nothing."""
    tenant = world.tenant()
    _submit_and_execute(world, tenant)
    once = _prepared(world)
    _submit_and_execute(world, tenant)
    twice = _prepared(world)
    assert once.keys() == twice.keys()
    assert len(once) == len(_BY_A_RUN)
    assert all(twice[statement] == once[statement] + 1 for statement in once)


def test_warm_containers_work_after_a_migration_that_adds_columns(world: World) -> None:
    """Postgres refuses a prepared statement whose result would have other columns than before."""
    tenant = world.tenant()
    _submit_and_execute(world, tenant)
    with psycopg.connect(world.database_url, autocommit=True) as connection:
        for table in ("runs", "run_inputs", "api_keys", "tenants", "execution_switches"):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN added text DEFAULT 'x'".encode())
    _submit_and_execute(world, tenant)


def test_a_connection_whose_server_forgot_the_statements_is_replaced(world: World) -> None:
    """As after a proxy's failure: nothing took effect, and the next use has a new connection."""
    tenant = world.tenant()
    _submit_and_execute(world, tenant)
    with world.database.connection() as connection:
        connection.pgconn.exec_(b"DEALLOCATE ALL")  # without psycopg's knowledge
    run_before = _count(world)
    with pytest.raises(PostgresUnavailable):
        world.submit(tenant)
    assert _count(world) == run_before
    _submit_and_execute(world, tenant)


def _count(world: World) -> int:
    with psycopg.connect(world.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM runs").fetchone()
    assert row is not None
    return int(row[0])
