"""A dependency fails at each step of a submit and a read: a 503 with Retry-After, and no money is lost.

Real servers are behind proxies that refuse, cut, drop a reply or hang; the clients of SQS and S3 raise.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dpp.runs import admission
from tests.http import faulty
from tests.http.faulty import Faulty, assert_heals
from tests.http.state import footprint, message_count, work
from tests.support.api import COST_HEADERS, Answer, ApiClient, a_body
from tests.support.proxy import Fault
from tests.support.world import A_RESERVATION, Tenant, World

KEY = "a-key-of-mine"
type Break = Callable[[Faulty], None]


def assert_unavailable(answer: Answer) -> None:
    """503, RFC 9457, Retry-After, cost headers, and nothing of the inside."""
    assert (answer.status, answer.body["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Retry-After"] == "1"
    assert set(COST_HEADERS) <= set(answer.headers)
    for inside in ("postgres", "redis", "127.0.0.1", "Operational", "psycopg", "sqs"):
        assert inside not in answer.text.lower()


BEFORE_ANY_EFFECT: dict[str, Break] = {
    "postgres refuses": lambda f: f.postgres.refuse(),
    "postgres cut at auth": lambda f: f.postgres.arm(Fault.CUT, faulty.AUTHENTICATE),
    "postgres silent at auth": lambda f: f.postgres.arm(Fault.HANG, faulty.AUTHENTICATE),
    "postgres silent from the start": lambda f: f.postgres.arm(Fault.HANG),
    "redis refuses": lambda f: f.redis.refuse(),
    "redis cut at admit": lambda f: f.redis.arm(Fault.CUT, faulty.ADMIT),
}
AFTER_AN_EFFECT: dict[str, Break] = {
    "admit's reply lost": lambda f: f.redis.arm(Fault.SWALLOW_REPLY, faulty.ADMIT),
    "redis silent at admit": lambda f: f.redis.arm(Fault.HANG, faulty.ADMIT),
    "postgres cut at insert": lambda f: f.postgres.arm(Fault.CUT, faulty.INSERT),
    "insert's reply lost": lambda f: f.postgres.arm(Fault.SWALLOW_REPLY, faulty.INSERT),
    "postgres silent at insert": lambda f: f.postgres.arm(Fault.HANG, faulty.INSERT),
}
WITHOUT_THE_CLIENT_NOTICING: dict[str, Break] = {
    "admit's reply lost once": lambda f: f.redis.arm(Fault.SWALLOW_REPLY, faulty.ADMIT, times=1),
    "redis cut at the mapping": lambda f: f.redis.arm(Fault.CUT, faulty.REMEMBER),
    "mapping's reply lost": lambda f: f.redis.arm(Fault.SWALLOW_REPLY, faulty.REMEMBER),
    "postgres cut at enqueued_at": lambda f: f.postgres.arm(Fault.CUT, faulty.MARK_ENQUEUED),
    "enqueued_at's reply lost": lambda f: f.postgres.arm(Fault.SWALLOW_REPLY, faulty.MARK_ENQUEUED),
}


def test_a_submit_that_fails_before_its_reservation_leaves_nothing(
    api: ApiClient, world: World, broken: Faulty
) -> None:
    """RUN-9: no reservation and no lock: the same key works as soon as the dependency does."""
    for fault, happen in BEFORE_ANY_EFFECT.items():
        tenant = world.tenant()
        before = footprint(world, tenant)
        happen(broken)
        assert_unavailable(_timed(partial(api.submit, tenant, a_body(), key=KEY)))
        broken.heal()
        assert footprint(world, tenant) == before, fault
        assert api.submit(tenant, a_body(), key=KEY).status == 202, fault
        assert_heals(world, tenant)


def test_a_submit_that_fails_after_its_reservation_costs_nothing(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-4, D2, D5: repeated after the lock has expired, it creates one run; the jobs refund the orphan."""
    for fault, happen in AFTER_AN_EFFECT.items():
        tenant = world.tenant()
        _lose(api, broken, tenant, happen)
        world.ledger.client.delete(f"idem_lock:{tenant.tenant_id}:{KEY}")  # after its five seconds
        again = api.submit(tenant, a_body(), key=KEY)
        assert again.status == 202, fault
        assert_heals(world, tenant)
        runs = world.sql("SELECT run_id::text FROM runs WHERE tenant_id = %s", [tenant.tenant_id])
        assert runs == [(again.body["run_id"],)], fault
        assert api.read(tenant, again.body["run_id"]).body["status"] == "COMPLETED"
        assert world.position(tenant).charges_usd_micros == 50_000


def test_a_failed_submit_that_is_not_repeated_ends_too(api: ApiClient, world: World, broken: Faulty) -> None:
    """D2, D5: by the jobs alone, the ledger balances."""
    for happen in AFTER_AN_EFFECT.values():
        tenant = world.tenant()
        _lose(api, broken, tenant, happen)
        assert_heals(world, tenant)


def test_a_fault_that_can_be_repaired_later_is_hidden_from_the_client(
    api: ApiClient, world: World, broken: Faulty
) -> None:
    """RUN-4, D4, D5: 202 with one reservation; the repetition gets the same receipt."""
    for fault, happen in WITHOUT_THE_CLIENT_NOTICING.items():
        tenant = world.tenant()
        happen(broken)
        first = api.submit(tenant, a_body(), key=KEY)
        assert first.status == 202, fault
        assert broken.postgres.tripped.is_set() or broken.redis.tripped.is_set(), fault
        assert world.position(tenant).open_reservations_usd_micros == A_RESERVATION
        broken.heal()
        again = api.submit(tenant, a_body(), key=KEY)
        assert (again.status, again.text) == (202, first.text), fault
        assert_heals(world, tenant)
        assert world.position(tenant).charges_usd_micros == 50_000


def _lose(api: ApiClient, broken: Faulty, tenant: Tenant, happen: Break) -> None:
    """Send a submit that fails in time; then repair everything."""
    happen(broken)
    assert_unavailable(_timed(lambda: api.submit(tenant, a_body(), key=KEY)))
    assert broken.postgres.tripped.is_set() or broken.redis.tripped.is_set()
    broken.heal()


def test_a_reservation_whose_insert_was_never_sent_is_refunded_at_once(
    api: ApiClient, world: World, broken: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: without a connection there is certainly no row: key and money are free without a job."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    admit = admission.admit

    def admit_then_lose_postgres(*args: Any) -> Any:
        admitted = admit(*args)
        broken.database.close()
        broken.postgres.refuse()
        return admitted

    monkeypatch.setattr(admission, "admit", admit_then_lose_postgres)
    assert_unavailable(api.submit(tenant, a_body(), key=KEY))
    assert footprint(world, tenant) == before


@pytest.mark.parametrize("where", ["auth", "look-up of the key"])
def test_a_replay_without_postgres_is_a_503(api: ApiClient, world: World, broken: Faulty, where: str) -> None:
    """RUN-4: it gets its receipt when Postgres is available again."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    before = footprint(world, tenant)
    broken.postgres.arm(Fault.CUT, faulty.AUTHENTICATE if where == "auth" else faulty.FIND_BY_KEY)
    assert_unavailable(api.submit(tenant, a_body(), key=KEY))
    broken.heal()
    assert footprint(world, tenant) == before
    assert api.submit(tenant, a_body(), key=KEY).text == first.text


READS_FAIL: dict[str, Break] = {
    "postgres refuses": lambda f: f.postgres.refuse(),
    "postgres cut at auth": lambda f: f.postgres.arm(Fault.CUT, faulty.AUTHENTICATE),
    "postgres cut at the row": lambda f: f.postgres.arm(Fault.CUT, faulty.FIND_FOR_OWNER),
    "postgres silent at the row": lambda f: f.postgres.arm(Fault.HANG, faulty.FIND_FOR_OWNER),
    "redis refuses": lambda f: f.redis.refuse(),
    "redis silent": lambda f: f.redis.arm(Fault.HANG, faulty.OBSERVE),
    "redis cut always": lambda f: f.redis.arm(Fault.CUT, faulty.OBSERVE),
    "s3 down": lambda f: f.lose_s3(),
}


def test_a_read_without_a_dependency_is_a_503_and_works_again_afterwards(
    api: ApiClient, world: World, broken: Faulty
) -> None:
    """RUN-9, RUN-10: each dependency at each step of a read of an inline result."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(options={"inline": 1})).body["run_id"]
    work(world)
    for name, fault in READS_FAIL.items():
        fault(broken)
        assert_unavailable(_timed(lambda: api.read(tenant, run_id)))
        broken.heal()
        answer = api.read(tenant, run_id)
        assert (answer.status, answer.body["status"]) == (200, "COMPLETED"), name
    assert_heals(world, tenant)


def test_a_read_survives_one_lost_reply_of_redis(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-10: the script is repeatable, so it is repeated."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body()).body["run_id"]
    broken.redis.arm(Fault.SWALLOW_REPLY, faulty.OBSERVE, times=1)
    assert api.read(tenant, run_id).status == 200
    assert broken.redis.tripped.is_set()


def test_no_request_fails_because_connections_died_meanwhile(api: ApiClient, world: World, broken: Faulty) -> None:
    """Both servers dropped their connections (a failover): the container opens new ones."""
    tenant = world.tenant()
    broken.postgres.drop()
    broken.redis.drop()
    run_id = api.submit(tenant, a_body(), key=KEY).body["run_id"]
    broken.postgres.drop()
    broken.redis.drop()
    assert api.read(tenant, run_id).status == 200
    assert message_count(world) == 1
    assert_heals(world, tenant)


_GATEWAY_SECONDS = 29


def _timed(request: Callable[[], Answer]) -> Answer:
    """The response; a server that hangs may delay it only by the timeouts of one try and one repetition."""
    started = time.monotonic()
    answer = request()
    assert time.monotonic() - started < _GATEWAY_SECONDS
    return answer
