"""A snapshot's data apart from problems: tenants and queues; and how it goes on where something does not answer."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import ReadOnlySqlTransaction

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rate_limit import requests_left
from dpp.platform.errors import QueueUnavailable
from dpp_cli.operator.connect import Reach
from dpp_cli.top import gather, parts
from dpp_cli.top.gather import Gatherer, TopSettings
from dpp_cli.top.model import Snapshot, TenantsPart
from tests.support.proxy import Proxy
from tests.top.conftest import Watch, environ


def tenants(found: Snapshot) -> TenantsPart:
    """The part, which is there."""
    assert found.tenants is not None
    return found.tenants


def test_who_is_at_work_and_has_least_stands_first(watch: Watch) -> None:
    """A tenant whose money went long ago and who asks for nothing stands behind those whose next run is refused."""
    world = watch.world
    idle, rich, poor = (world.tenant(micros) for micros in (1_000, 9_000_000, 900_000))
    for tenant in (rich, poor):
        world.submit(tenant)
    found = tenants(watch.look())
    lines = [(one.tenant_id, one.balance_usd_micros, one.reserved_usd_micros) for one in found.nearest]
    assert lines == [
        (poor.tenant_id, 650_000, 250_000),
        (rich.tenant_id, 8_750_000, 250_000),
        (idle.tenant_id, 1_000, 0),
    ]
    assert (found.looked_at, found.is_all, found.lost) == (3, True, ())


def test_a_tenant_without_a_request_left_is_throttled_until_one_comes_back(watch: Watch) -> None:
    """RUN-14."""
    world = watch.world
    tenant = world.tenant(rate_limit_per_minute=1)
    assert tenants(watch.look()).throttled == ()
    world.submit(tenant)
    found = tenants(watch.look())
    assert found.throttled == (tenant.tenant_id,)
    assert found.nearest[0].requests_left == 0
    bucket = world.ledger.keys.rate_limit(tenant.tenant_id)
    world.ledger.client.hincrby(bucket, "at_ms", -60_000)
    assert tenants(watch.look()).throttled == ()


def test_what_a_bucket_lets_through_is_what_the_script_says() -> None:
    assert requests_left(None, None, 60, 0) is None
    assert requests_left("59999", "0", 60, 0) == 0
    assert requests_left("59999", "0", 60, 1) == 1
    assert requests_left("0", "0", 60, 60_000) == requests_left("0", "0", 60, 10**9) == 60
    assert requests_left("60000", "5", 60, 0) == 1  # a clock that went back takes nothing away


def test_of_very_many_tenants_so_many_are_looked_at_and_it_says_so(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "_TENANTS", 3)
    busy = sorted(watch.world.tenant().tenant_id for _ in range(2))
    watch.write("INSERT INTO tenants (tenant_id, display_name) SELECT '0-' || n, 'x' FROM generate_series(1, 9) n")
    for_all = [watch.world.tenant() for _ in range(1)]
    watch.world.submit(for_all[0])
    found = tenants(watch.look())
    assert (found.looked_at, found.is_all) == (3, False)
    assert [one.tenant_id for one in found.nearest] == [for_all[0].tenant_id]
    assert busy[0] not in {one.tenant_id for one in found.nearest}


def test_queues_are_counted_by_what_is_visible_and_what_is_in_work(watch: Watch) -> None:
    for _ in range(3):
        watch.world.submit(watch.world.tenant())
    watch.world.queue.receive(at_most=1, invisible_seconds=30)
    found = watch.look().queues
    assert found is not None
    assert (found.runs.visible, found.runs.taken, found.dead_letters.visible) == (2, 1, 0)


@pytest.fixture
def proxied(watch: Watch) -> Iterator[tuple[Gatherer, Proxy, Proxy]]:
    """A page whose Postgres and Redis stand behind proxies."""
    world = watch.world
    with Proxy(world.database_url) as postgres, Proxy(world.redis_url) as redis:
        given = environ(world, watch.dead_letters, watch.event_dead_letters)
        settings = TopSettings.load(given | {"DATABASE_URL": postgres.url, "REDIS_URL": redis.url})
        with Gatherer(Reach(settings, None)) as look:
            yield look, postgres, redis


def test_a_dependency_that_is_away_is_named_and_the_rest_is_asked(
    proxied: tuple[Gatherer, Proxy, Proxy], watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, postgres, redis = proxied
    watch.world.submit(watch.world.tenant())
    assert look().away == {}

    redis.refuse()
    found = look()
    assert (set(found.away), found.tenants) == ({"redis"}, None)
    assert found.runs is not None
    assert found.queues is not None

    postgres.refuse()
    found = look()
    assert (set(found.away), found.runs, found.tickets) == ({"postgres", "redis"}, None, None)
    assert found.queues is not None

    redis.heal()
    assert set(look().away) == {"postgres"}
    postgres.heal()
    with monkeypatch.context() as patch:

        def away(_queue: Queue) -> None:
            raise QueueUnavailable("EndpointConnectionError")

        patch.setattr(Queue, "depth", away)
        found = look()
        assert (set(found.away), found.queues) == ({"sqs"}, None)
        assert found.runs is not None
        assert found.runs.waiting == 1
    assert look().away == {}


def test_one_connection_is_kept_and_nothing_of_it_is_left_open(watch: Watch) -> None:
    watch.look()
    with psycopg.connect(watch.world.database_url, autocommit=True) as admin:
        asked = "SELECT pid, state FROM pg_stat_activity WHERE datname = current_database() AND query LIKE %s"
        first = admin.execute(asked, ["%"]).fetchall()
        for _ in range(3):
            watch.look()
        assert set(admin.execute(asked, ["%"]).fetchall()) == set(first)
        assert not any(state.startswith("idle in") for _, state in first)


def test_a_look_may_only_read(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def writes(connection: Connection) -> None:
        connection.execute("UPDATE emergency_stop SET actor = 'somebody'")

    monkeypatch.setitem(parts.PARTS, "runs", writes)
    found = watch.look()
    assert found.away == {"postgres": str(ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"))}


def test_a_part_that_takes_too_long_is_named_and_hides_no_other(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleeps(connection: Connection) -> None:
        connection.execute("SELECT pg_sleep(20)")

    monkeypatch.setattr(gather, "_BOUND", "SET LOCAL statement_timeout = '50ms'")
    monkeypatch.setitem(parts.PARTS, "money", sleeps)
    found = watch.look()
    assert found.slow == ("money",)
    assert (found.money, found.away) == (None, {})
    assert found.data is not None
    assert found.tickets is not None
