"""/healthz and /readyz (RUN-32)."""

from tests.http.faulty import Faulty
from tests.support.api import COST_HEADERS, ApiClient
from tests.support.proxy import Fault

ALL_OK = {"postgres": "ok", "redis": "ok", "s3": "ok", "sqs": "ok"}


def test_healthz_needs_no_dependency(api: ApiClient, broken: Faulty) -> None:
    """RUN-32."""
    broken.postgres.refuse()
    broken.redis.refuse()
    answer = api.call("GET", "/healthz")
    assert (answer.status, answer.body) == (200, {"status": "ok"})
    assert set(COST_HEADERS) <= set(answer.headers)


def test_readyz_tests_all_four_dependencies(api: ApiClient) -> None:
    """RUN-32: database, Redis, S3, SQS, without a key."""
    answer = api.call("GET", "/readyz")
    assert (answer.status, answer.body) == (200, {"status": "ok", "checks": ALL_OK})
    assert set(COST_HEADERS) <= set(answer.headers)


def test_readyz_names_what_is_down_and_recovers(api: ApiClient, broken: Faulty) -> None:
    """RUN-32: 503 with its name and nothing else; ready again when it is available."""
    lose = {
        "postgres": broken.postgres.refuse,
        "redis": broken.redis.refuse,
        "s3": broken.lose_s3,
        "sqs": broken.lose_sqs,
    }
    for lost in (*([name] for name in lose), list(lose)):
        for name in lost:
            lose[name]()
        answer = api.call("GET", "/readyz")
        assert answer.status == 503
        assert answer.body == {"status": "unavailable", "checks": ALL_OK | dict.fromkeys(lost, "unavailable")}
        assert "127.0.0.1" not in answer.text
        broken.heal()
        assert api.call("GET", "/readyz").status == 200, lost


def test_readyz_does_not_wait_for_servers_that_hang(api: ApiClient, broken: Faulty) -> None:
    """RUN-32: they count as down."""
    broken.postgres.arm(Fault.HANG)
    broken.redis.arm(Fault.HANG)
    checks = api.call("GET", "/readyz").body["checks"]
    assert checks == ALL_OK | {"postgres": "unavailable", "redis": "unavailable"}
