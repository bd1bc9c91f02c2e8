"""402 and 429: the budget and the rate limit of a tenant (RUN-6, RUN-13, RUN-14)."""

from uuid import uuid4

import pytest

from dpp.money.credits import credit
from tests.http.state import footprint
from tests.support.api import ApiClient, a_body
from tests.support.world import A_RESERVATION, World

KEY = "a-key-of-mine"


def test_a_balance_equal_to_the_price_is_enough(api: ApiClient, world: World) -> None:
    """RUN-6: to the micro; the next request gets a 402."""
    tenant = world.tenant(credit_usd_micros=A_RESERVATION)
    accepted = api.submit(tenant, a_body())
    assert (accepted.status, accepted.costs()[2]) == (202, "0.0000")
    assert api.submit(tenant, a_body(reservation={"max_cost_usd": "0.0500"})).status == 402


@pytest.mark.parametrize(("balance", "remaining"), [(A_RESERVATION - 1, "0.2499"), (0, "0.0000")])
def test_a_balance_below_the_price_is_a_402(api: ApiClient, world: World, balance: int, remaining: str) -> None:
    """RUN-9, RUN-13: BUDGET_DRAINED, with the balance in the headers, rounded down; nothing is reserved."""
    tenant = world.tenant(credit_usd_micros=balance)
    before = footprint(world, tenant)
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.body["reason_code"]) == (402, "BUDGET_DRAINED")
    assert answer.costs() == ("0.0000", "0.0000", remaining, "0")
    assert "X-RateLimit-Remaining" in answer.headers
    assert footprint(world, tenant) == before


def test_after_a_credit_the_same_key_works_at_once(api: ApiClient, world: World) -> None:
    """RUN-4: a 402 releases its lock, so a retry does not wait."""
    tenant = world.tenant(credit_usd_micros=1)
    assert api.submit(tenant, a_body(), key=KEY).status == 402
    world.using(
        credit,
        world.ledger,
        credit_id=uuid4(),
        tenant_id=tenant.tenant_id,
        amount_usd_micros=A_RESERVATION,
        reason="for a test",
    )
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.costs()[2]) == (202, "0.0000")


def test_a_balance_of_1e14_micros_survives_a_reservation(api: ApiClient, world: World) -> None:
    """RUN-23, D2: without a float."""
    tenant = world.tenant(credit_usd_micros=100_000_000_000_001)
    assert api.submit(tenant, a_body(reservation={"max_cost_usd": "0.0500"})).costs()[2] == "99999999.9500"
    assert world.ledger.balance(tenant.tenant_id) == 99_999_999_950_001


def test_the_default_limit_is_60_requests_a_minute(api: ApiClient, world: World) -> None:
    """RUN-14."""
    assert world.sql(
        "SELECT column_default FROM information_schema.columns"
        " WHERE table_name = 'tenants' AND column_name = 'rate_limit_per_minute'"
    ) == [("60",)]
    answer = api.read(world.tenant(rate_limit_per_minute=60), "no-run")
    assert (answer.headers["X-RateLimit-Limit"], answer.headers["X-RateLimit-Remaining"]) == ("60", "59")


def test_posts_and_gets_share_one_rate_limit(api: ApiClient, world: World) -> None:
    """RUN-14: 429 with Retry-After: 30, all rate limit headers, and the balance (RUN-13)."""
    tenant = world.tenant(rate_limit_per_minute=3)
    accepted = api.submit(tenant, a_body())
    assert api.read(tenant, accepted.body["run_id"]).headers["X-RateLimit-Remaining"] == "1"
    assert api.submit(tenant, a_body()).headers["X-RateLimit-Remaining"] == "0"
    before = footprint(world, tenant)
    for answer in (api.submit(tenant, a_body(), key=KEY), api.read(tenant, accepted.body["run_id"])):
        assert (answer.status, answer.body["reason_code"]) == (429, "RATE_LIMITED")
        assert answer.headers["Retry-After"] == "30"
        assert answer.headers["X-RateLimit-Limit"] == "3"
        assert answer.headers["X-RateLimit-Remaining"] == "0"
        assert answer.headers["RateLimit-Policy"] == '"tenant";q=3;w=60'
        reset = int(answer.headers["X-RateLimit-Reset"])
        assert 40 < reset <= 60
        assert answer.headers["RateLimit"] == f'"tenant";r=0;t={reset}'
        assert answer.costs() == ("0.0000", "0.0000", "9.5000", "0")
    assert footprint(world, tenant) == before


def test_the_bucket_refills_over_time(api: ApiClient, world: World) -> None:
    """RUN-14: at three a minute, one token in 20 seconds; a refused request takes none."""
    tenant = world.tenant(rate_limit_per_minute=3)
    for _ in range(3):
        api.read(tenant, "no-run")
    assert api.read(tenant, "no-run").status == 429
    _let_pass(world, tenant.tenant_id, milliseconds=19_000)
    assert api.read(tenant, "no-run").status == 429
    _let_pass(world, tenant.tenant_id, milliseconds=1_500)
    assert api.read(tenant, "no-run").status == 404
    assert api.read(tenant, "no-run").status == 429


def test_the_bucket_never_exceeds_its_limit(api: ApiClient, world: World) -> None:
    """RUN-14: also after an idle day."""
    tenant = world.tenant(rate_limit_per_minute=2)
    api.read(tenant, "no-run")
    _let_pass(world, tenant.tenant_id, milliseconds=86_400_000)
    assert [api.read(tenant, "no-run").status for _ in range(3)] == [404, 404, 429]


def test_the_limit_of_a_tenant_does_not_affect_others(api: ApiClient, world: World) -> None:
    """RUN-14."""
    busy, quiet = world.tenant(rate_limit_per_minute=1), world.tenant(rate_limit_per_minute=1)
    assert api.submit(busy, a_body()).status == 202
    assert api.submit(busy, a_body()).status == 429
    assert api.submit(quiet, a_body()).status == 202


def test_a_rate_limited_key_is_not_locked(api: ApiClient, world: World) -> None:
    """RUN-4, RUN-14: a refused submit does not block its repetition."""
    tenant = world.tenant(rate_limit_per_minute=1)
    api.read(tenant, "no-run")
    assert api.submit(tenant, a_body(), key=KEY).status == 429
    _let_pass(world, tenant.tenant_id, milliseconds=60_000)
    assert api.submit(tenant, a_body(), key=KEY).status == 202


def _let_pass(world: World, tenant_id: str, *, milliseconds: int) -> None:
    """Move the bucket's last change into the past, because the clock of Redis can't be set."""
    world.ledger.client.hincrby(world.ledger.keys.rate_limit(tenant_id), "at_ms", -milliseconds)
