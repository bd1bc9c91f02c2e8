"""A warm container after a freeze: its sockets died, were killed, or lead to nobody, and no client notices."""

import importlib
from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest

from dpp.platform.db.postgres import Database
from dpp.runs.execute import execute
from dpp.runs.machine import Status
from tests.http.faulty import Faulty, assert_heals, faulty_functions
from tests.support.api import ApiClient, a_body, lambda_context
from tests.support.proxy import Fault
from tests.support.world import A_COST, A_CREDIT, Tenant, World, message_of


@pytest.fixture
def broken(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """The functions behind proxies, with short timeouts."""
    with faulty_functions(world, monkeypatch) as faulty:
        yield faulty


def _submit(api: ApiClient, tenant: Tenant) -> str:
    answer = api.submit(tenant, a_body())
    assert answer.status == 202, answer.text
    return str(answer.body["run_id"])


def _kill_backends(world: World) -> int:
    """End every connection to this test's database but our own."""
    world.database.close()
    with psycopg.connect(world.database_url, autocommit=True) as admin:
        killed = admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert all(ended for (ended,) in killed)
    return len(killed)


def _kill_clients(world: World) -> int:
    """End every connection to Redis but our own."""
    return int(cast(Any, world.ledger.client).client_kill_filter(_type="normal", skipme=True))


def test_a_warm_api_whose_connections_were_killed_serves_the_next_request(api: ApiClient, world: World) -> None:
    """pg_terminate_backend and CLIENT KILL between two invocations: both reconnect, and the client sees a 202."""
    tenant = world.tenant()
    _submit(api, tenant)
    for _ in range(2):
        assert _kill_backends(world) >= 1
        assert _kill_clients(world) >= 1
        run_id = _submit(api, tenant)
        _kill_backends(world)
        _kill_clients(world)
        assert api.read(tenant, run_id).status == 200
    assert_heals(world, tenant)


def test_a_warm_api_whose_sockets_are_half_open_serves_the_next_request(
    api: ApiClient, world: World, broken: Faulty
) -> None:
    """The peer is gone and nobody said so: what is sent on these sockets is answered by silence, and sent elsewhere."""
    tenant = world.tenant()
    _submit(api, tenant)
    broken.postgres.arm(Fault.HANG, times=1)
    broken.redis.arm(Fault.HANG, times=1)
    _submit(api, tenant)
    assert broken.postgres.tripped.is_set()
    assert broken.redis.tripped.is_set()
    assert_heals(world, tenant)
    assert world.position(tenant).charges_usd_micros == 100_000


def test_a_warm_worker_whose_connections_were_killed_works_on_the_next_message(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minute's freeze: the connection is asked before it is trusted, so no message has to come again."""
    minutes = [0.0]
    database = Database(world.database_url, wall_clock=lambda: minutes[0] * 60)
    world.opened.append(database)
    effects = world.work_effects()
    effects = type(effects)(**{name: getattr(effects, name) for name in effects.__slots__} | {"database": database})
    module = importlib.import_module("run_worker.handler")
    monkeypatch.setattr(module, "wiring", lambda: effects)
    tenant = world.tenant()
    for number in range(3):
        run = world.submit(tenant).run
        record = {
            "messageId": f"m{number}",
            "receiptHandle": f"h{number}",
            "body": message_of(run).model_dump_json(),
            "attributes": {"ApproximateReceiveCount": "1"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
        }
        assert module.handler({"Records": [record]}, lambda_context()) == {"batchItemFailures": []}
        assert world.run(run).status == Status.COMPLETED
        assert _kill_backends(world) >= 1
        _kill_clients(world)
        minutes[0] += 1
    assert world.position(tenant).balanced


def test_a_worker_cut_off_within_seconds_of_its_last_statement_tries_again(world: World) -> None:
    """Too short a pause to be asked first: the first try fails, and the second has a new connection."""
    tenant = world.tenant()
    effects = world.work_effects()
    execute(message_of(world.submit(tenant).run), "receipt", effects)
    run = world.submit(tenant).run
    with psycopg.connect(world.database_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    execute(message_of(run), "receipt", effects)
    assert world.run(run).status == Status.COMPLETED
    assert world.position(tenant).balance_usd_micros == A_CREDIT - 2 * A_COST
