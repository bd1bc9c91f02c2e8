"""Authentication (RUN-2, RUN-9): the same 401 for every invalid key, without the reason."""

import re
from typing import Any

from dpp.platform.keys import api_keys
from tests.http.state import footprint
from tests.support.api import Answer, ApiClient, a_body
from tests.support.world import Tenant, World

UNKNOWN = f"dpp_{'0' * 31}1_{'a' * 64}"


def without_ids(answer: Answer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """The response without the parts that differ between requests."""
    headers = {name: value for name, value in answer.headers.items() if name != "X-Trace-Id"}
    body = {name: value for name, value in answer.body.items() if name != "trace_id"}
    return answer.status, headers, body


def bad_tokens(world: World, tenant: Tenant) -> dict[str, str | list[str]]:
    """Invalid `Authorization` headers of every kind."""
    token = tenant.token
    return {
        "missing": [],
        "empty": "",
        "no scheme": token,
        "no token": "Bearer",
        "no token, a blank": "Bearer ",
        "another scheme": f"Basic {token}",
        "unknown id": f"Bearer {UNKNOWN}",
        "wrong secret": f"Bearer {token[:-1]}{'0' if token[-1] != '0' else '1'}",
        "cut": f"Bearer {token[:-1]}",
        "longer": f"Bearer {token}0",
        "upper case": f"Bearer {token.upper()}",
        "NUL": f"Bearer {token}\x00",
        "line break": f"Bearer {token}\n",
        "two tokens": f"Bearer {token} {token}",
        "SQL": "Bearer ' OR 1=1 --",
        "not ASCII": "Bearer dpp_열쇠",
        "huge": "Bearer " + "x" * 10_000,
        "revoked": f"Bearer {_key_of(world, 'REVOKED', 'ACTIVE')}",
        "of a suspended tenant": f"Bearer {_key_of(world, 'ACTIVE', 'SUSPENDED')}",
    }


def test_every_invalid_key_gets_the_same_401(api: ApiClient, world: World) -> None:
    """RUN-9, D13: with the same headers and body, for POST and GET."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    posts, gets = set(), set()
    for name, header in bad_tokens(world, tenant).items():
        headers = {"Authorization": header}
        post = api.submit(None, a_body(), headers=headers)
        get = api.call("GET", "/v1/runs/some-run", headers=headers)
        assert (post.status, get.status) == (401, 401), name
        posts.add(str(without_ids(post)))
        gets.add(str(without_ids(get)))
    assert len(posts) == len(gets) == 1
    assert footprint(world, tenant) == before


def test_the_401_says_how_to_authenticate(api: ApiClient, world: World) -> None:
    """RUN-9, RFC 6750: AUTH_INVALID, a challenge, and zeros for costs (RUN-13)."""
    answer = api.submit(None, a_body())
    assert answer.body["reason_code"] == "AUTH_INVALID"
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'
    assert answer.costs() == ("0.0000", "0.0000", "0.0000", "0")


def test_the_scheme_is_case_insensitive(api: ApiClient, world: World) -> None:
    """RFC 9110: bearer, Bearer and BEARER are equal; blanks around the token are ignored."""
    tenant = world.tenant()
    for scheme in ("Bearer", "bearer", "BEARER", "Bearer  "):
        headers = {"Authorization": f"{scheme} {tenant.token} "}
        assert api.submit(None, a_body(), headers=headers).status == 202, scheme


def test_header_names_are_case_insensitive(api: ApiClient, world: World) -> None:
    """RFC 9110: HTTP/2 clients send them in lower case."""
    tenant = world.tenant()
    headers: dict[str, str | list[str]] = {"authorization": f"Bearer {tenant.token}", "Content-Type": []}
    headers |= {"content-type": "application/json", "Idempotency-Key": [], "idempotency-key": "a-key-of-mine"}
    assert api.submit(None, a_body(), key=[], headers=headers).status == 202


def test_two_keys_in_one_request_are_refused(api: ApiClient, world: World) -> None:
    """RFC 6750 §3.1: neither is used."""
    one, two = world.tenant(), world.tenant()
    for pair in ([one.token, two.token], [one.token, one.token]):
        headers = {"Authorization": [f"Bearer {token}" for token in pair]}
        answer = api.submit(None, a_body(), headers=headers)
        assert (answer.status, answer.body["reason_code"]) == (400, "MALFORMED_REQUEST")
    assert world.position(one).open_reservations_usd_micros == 0


def test_a_key_of_one_tenant_never_acts_for_another(api: ApiClient, world: World) -> None:
    """RUN-2: the key determines the tenant, whatever the body contains."""
    one, two = world.tenant(), world.tenant()
    assert api.submit(one, a_body(tenant_id=two.tenant_id)).status == 422
    api.submit(one, a_body())
    assert world.position(one).open_reservations_usd_micros == 250_000
    assert world.position(two).open_reservations_usd_micros == 0


def test_the_use_of_a_key_is_written_rarely(api: ApiClient, world: World) -> None:
    """RUN-2: not every call writes `last_used_at`."""
    tenant = world.tenant()
    api.read(tenant, "no-run")
    first = _version_of_the_key(world)
    api.read(tenant, "no-run")
    assert _version_of_the_key(world) == first
    [(last_used_at, key_hash)] = world.sql("SELECT last_used_at, key_hash FROM api_keys")
    assert last_used_at is not None
    assert re.fullmatch("[0-9a-f]{64}", key_hash)
    assert key_hash not in tenant.token


def _version_of_the_key(world: World) -> str:
    return str(world.sql("SELECT xmin::text || ctid::text FROM api_keys"))


def _key_of(world: World, key_status: str, tenant_status: str) -> str:
    tenant, minted = world.tenant(), api_keys.mint()
    with world.database.connection() as connection:
        api_keys.store(connection, minted, tenant.tenant_id)
        connection.execute("UPDATE api_keys SET status = %s WHERE key_id = %s", [key_status, minted.key_id])
        connection.execute("UPDATE tenants SET status = %s WHERE tenant_id = %s", [tenant_status, tenant.tenant_id])
    return minted.token
