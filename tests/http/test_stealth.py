"""Runs of other tenants do not exist for a caller (RUN-11, RUN-12, D13): the same 404 in every respect."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from dpp.platform.db import postgres
from tests.http.faulty import Faulty
from tests.http.state import work
from tests.support.api import Answer, ApiClient, a_body
from tests.support.world import Tenant, World

MALFORMED = (
    *("1", "x", "null", "0", "-1", "../runs", "%2e%2e", "%00", "\x00", "a\nb", "\u2028", "열쇠", "😀", "\ud800"),
    *("urn:uuid:{ID}", " {ID}", "{ID} ", "{ID}\n", "{ID}\x00", "{ID}%00", "{ID}0", "' OR '1'='1", "*"),
    *("%F0%9F", "%zz", "%", "?", "#", "a b", "x" * 10_000, "0" * 36, "g" * 36, "--------" * 4, "{HEX}", "％"),
)


_OF_THE_MOMENT = {"X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit"}


@dataclass(frozen=True, slots=True)
class Read:
    """A read, and its traffic to the servers behind the proxies."""

    answer: Answer
    postgres_bytes: int
    redis_bytes: int


def without_ids(answer: Answer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The response without the parts that differ: trace id, path, and remaining requests."""
    headers = {
        name: "" if name in _OF_THE_MOMENT else value for name, value in answer.headers.items() if name != "X-Trace-Id"
    }
    return answer.status, headers, {k: v for k, v in answer.body.items() if k not in {"trace_id", "instance"}}


def test_unknown_foreign_and_malformed_ids_get_the_same_response(api: ApiClient, world: World) -> None:
    """RUN-11, D13: status, headers and body are equal except for trace id and instance."""
    owner, stranger = world.tenant(), world.tenant()
    theirs = api.submit(owner, a_body()).body["run_id"]
    unknown = without_ids(api.read(stranger, str(uuid4())))
    assert unknown[0] == 404
    assert unknown[2]["reason_code"] == "NOT_FOUND"
    assert "run_id" not in unknown[2]
    ids = [theirs, theirs.upper()]
    ids += [text.replace("{ID}", theirs).replace("{HEX}", theirs.replace("-", "")) for text in MALFORMED]
    for run_id in ids:
        answer = api.read(stranger, run_id)
        assert without_ids(answer) == unknown, run_id
        # A percent sign that encodes nothing is not allowed in a URI reference (RFC 3986, 2.1).
        escaped = {"%": "%25", "%zz": "%25zz"}.get(run_id, run_id)
        assert answer.body["instance"] == "/v1/runs/" + quote(escaped, safe="/%:@!$&'()*+,;=~", errors="replace")
        answer.text.encode("utf-8")
    for run_id in ids[2:]:  # the owner gets the same for a malformed id
        assert without_ids(api.read(owner, run_id))[2] == unknown[2], run_id


def test_a_404_causes_the_same_traffic_for_every_reason(
    api: ApiClient, world: World, broken: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-11: the same number of bytes goes to Postgres and Redis, so timing reveals nothing."""
    owner, stranger = world.tenant(), world.tenant()
    theirs = api.submit(owner, a_body()).body["run_id"]
    api.read(stranger, str(uuid4()))  # the first use of a key is written
    monkeypatch.setattr(postgres, "_PING_AFTER_IDLE_SECONDS", 3_600.0)

    def ask(run_id: str) -> tuple[int, int]:
        before = broken.postgres.bytes_sent, broken.redis.bytes_sent
        assert api.read(stranger, run_id).status == 404
        return broken.postgres.bytes_sent - before[0], broken.redis.bytes_sent - before[1]

    costs = {ask(run_id) for run_id in (str(uuid4()), theirs, "x", "\x00", "x" * 10_000, "%00")}
    assert len(costs) == 1
    assert min(min(costs)) > 0


def test_after_retention_the_owner_reads_410_and_others_404(api: ApiClient, world: World) -> None:
    """RUN-12, DEC-4209."""
    owner, stranger = world.tenant(), world.tenant()
    run_id = api.submit(owner, a_body()).body["run_id"]
    work(world)
    assert api.read(owner, run_id).status == 200
    world.sql("UPDATE runs SET retention_until = now() - interval '1 second'")
    gone = api.read(owner, run_id)
    assert (gone.status, gone.body["reason_code"], gone.body["run_id"]) == (410, "RUN_EXPIRED", run_id)
    assert gone.costs() == ("0.2500", "0.0500", "9.9500", "7")
    unknown = api.read(stranger, str(uuid4()))
    assert without_ids(api.read(stranger, run_id)) == without_ids(unknown)
    assert unknown.status == 404


def test_retention_is_30_days_from_the_submit(api: ApiClient, world: World) -> None:
    """RUN-12: a second earlier the run can be read."""
    owner = world.tenant()
    run_id = api.submit(owner, a_body()).body["run_id"]
    assert world.sql("SELECT retention_until - created_at = interval '30 days' FROM runs") == [(True,)]
    world.sql("UPDATE runs SET retention_until = now() + interval '1 hour'")
    assert api.read(owner, run_id).status == 200


def test_another_tenant_gets_the_same_404_in_every_state_of_a_run(api: ApiClient, world: World) -> None:
    """RUN-11: queued, completed or failed."""
    owner, stranger = world.tenant(), world.tenant()
    queued = api.submit(owner, a_body()).body["run_id"]
    unknown = without_ids(api.read(stranger, str(uuid4())))
    assert without_ids(api.read(stranger, queued)) == unknown
    work(world)
    assert without_ids(api.read(stranger, queued)) == unknown
    _assert_untouched(world, owner)


def _assert_untouched(world: World, tenant: Tenant) -> None:
    position = world.position(tenant)
    assert position.balanced
    assert position.charges_usd_micros == 50_000
