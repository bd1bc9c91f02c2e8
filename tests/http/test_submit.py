"""POST /v1/runs: accepted requests, their responses, and the state after them."""

import json
from typing import Any
from uuid import UUID

import pytest

from dpp.runs import store, submit_store
from dpp.runs.admission import LOCK_TTL_SECONDS, MAPPING_TTL_SECONDS
from tests.http.state import footprint, raw_messages, work
from tests.support.api import ApiClient, a_body
from tests.support.stored import existing
from tests.support.world import A_CREDIT, A_RESERVATION, World

KEY = "a-key-of-mine"


def test_a_submit_gets_the_receipt_of_the_contract(api: ApiClient, world: World) -> None:
    """RUN-2: 202 with exactly the members of 001 §7.2, and defaults (RUN-3)."""
    answer = api.submit(world.tenant(), a_body(meta={"trace_id": "t_mine"}))
    run_id = answer.body["run_id"]
    assert answer.status == 202
    assert answer.headers["Content-Type"] == "application/json"
    assert UUID(run_id).version == 4
    assert answer.body == {
        "run_id": run_id,
        "status": "QUEUED",
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
        "poll": {"href": f"/v1/runs/{run_id}", "recommended_interval_ms": 1500},
        "meta": {"trace_id": "t_mine", "profile_version": "PROFILE_DPP_0_4_2_2"},
    }


def test_a_submit_reserves_inserts_and_enqueues_once(api: ApiClient, world: World) -> None:
    """RUN-1, RUN-15: one reservation, one QUEUED row, one message with ids only."""
    tenant = world.tenant()
    answer = api.submit(tenant, a_body())
    [body] = raw_messages(world)
    message = json.loads(body)
    assert message.pop("enqueued_at").endswith("Z")
    assert message == {
        "run_id": answer.body["run_id"],
        "tenant_id": tenant.tenant_id,
        "pack_type": "decision",
        "schema_version": "1",
    }
    position = world.position(tenant)
    assert position.balanced
    assert position.open_reservations_usd_micros == A_RESERVATION
    run = existing(world.using(store.find, tenant.tenant_id, UUID(answer.body["run_id"])))
    enqueued = world.sql("SELECT enqueued_at FROM runs")
    assert (run.status, run.money_state, run.version) == ("QUEUED", "RESERVED", 0)
    assert len(enqueued) == 1
    assert enqueued[0][0] is not None


def test_a_submit_gets_cost_and_rate_limit_headers(api: ApiClient, world: World) -> None:
    """RUN-13, RUN-14: with the balance after the reservation."""
    answer = api.submit(world.tenant(rate_limit_per_minute=60), a_body())
    assert answer.costs() == ("0.2500", "0.0000", "9.7500", "0")
    assert answer.headers["X-RateLimit-Limit"] == "60"
    assert answer.headers["X-RateLimit-Remaining"] == "59"
    assert answer.headers["X-RateLimit-Reset"] == "1"
    assert answer.headers["RateLimit-Policy"] == '"tenant";q=60;w=60'
    assert answer.headers["RateLimit"] == '"tenant";r=59;t=1'


def test_the_keys_in_redis_are_the_locked_ones(api: ApiClient, world: World) -> None:
    """RUN-7: with their lifetimes; RUN-4: the mapping has the locked fields."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(), key=KEY).body["run_id"]
    redis, tenant_id = world.ledger.client, tenant.tenant_id
    assert redis.get(f"budget:{tenant_id}:balance_usd_micros") == str(A_CREDIT - A_RESERVATION)
    reservation = redis.hgetall(f"reserve:{run_id}")
    assert set(reservation) == {"tenant_id", "reserved_usd_micros", "created_at_ms"}
    assert 3_590 < redis.ttl(f"reserve:{run_id}") <= 3_600
    mapping = redis.hgetall(f"idem:{tenant_id}:{KEY}")
    assert set(mapping) == {"run_id", "payload_hash", "created_at_ms"}
    assert mapping["run_id"] == run_id
    assert MAPPING_TTL_SECONDS == 30 * 86_400
    assert 0 <= MAPPING_TTL_SECONDS - redis.ttl(f"idem:{tenant_id}:{KEY}") < 60
    assert redis.get(f"idem_lock:{tenant_id}:{KEY}") is None


def test_the_lock_lasts_five_seconds(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-4: between reservation and mapping the key is locked, for 5 s at most."""
    tenant = world.tenant()
    seen: list[int] = []
    insert = submit_store.insert

    def note_lock_then_insert(*args: Any) -> Any:
        seen.append(int(world.ledger.client.pttl(f"idem_lock:{tenant.tenant_id}:{KEY}")))
        return insert(*args)

    monkeypatch.setattr(submit_store, "insert", note_lock_then_insert)
    assert api.submit(tenant, a_body(), key=KEY).status == 202
    assert LOCK_TTL_SECONDS == 5
    assert 0 < seen[0] <= 5_000


def test_a_replay_gets_the_same_receipt_and_does_nothing(api: ApiClient, world: World) -> None:
    """RUN-4: with the same key and payload there is no second run, reservation or message."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(meta={"trace_id": "t_first"}), key=KEY)
    before = footprint(world, tenant)
    again = api.submit(tenant, a_body(meta={"trace_id": "t_second"}), key=KEY)
    assert (again.status, again.text) == (202, first.text)
    assert (first.headers["Idempotent-Replayed"], again.headers["Idempotent-Replayed"]) == ("false", "true")
    assert again.costs() == first.costs()
    assert footprint(world, tenant) == before


def test_a_replay_after_the_end_gets_the_first_receipt(api: ApiClient, world: World) -> None:
    """RUN-4: the receipt does not change with the run; the headers have its current costs (RUN-13)."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    work(world)
    again = api.submit(tenant, a_body(), key=KEY)
    assert (again.status, again.text) == (202, first.text)
    assert again.costs() == ("0.2500", "0.0500", "9.9500", "7")


def test_another_payload_with_the_key_is_a_conflict(api: ApiClient, world: World) -> None:
    """RUN-4, RUN-9: 409 IDEMPOTENCY_CONFLICT with the run id; nothing is reserved."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    before = footprint(world, tenant)
    other = api.submit(tenant, a_body(inputs={"question": "Another one?"}), key=KEY)
    assert other.status == 409
    assert other.body["reason_code"] == "IDEMPOTENCY_CONFLICT"
    assert other.body["run_id"] == first.body["run_id"]
    assert other.costs() == ("0.0000", "0.0000", "9.7500", "0")
    assert "Retry-After" not in other.headers
    assert footprint(world, tenant) == before


def test_a_held_lock_without_mapping_is_a_409_with_retry_after(api: ApiClient, world: World) -> None:
    """RUN-4: a retry after the lock has expired is accepted."""
    tenant = world.tenant()
    digest = _hash_of(api, world)
    lock = f"idem_lock:{tenant.tenant_id}:{KEY}"
    world.ledger.client.set(lock, f"another-run {digest}", ex=5)
    held = api.submit(tenant, a_body(), key=KEY)
    assert (held.status, held.body["reason_code"]) == (409, "IDEMPOTENCY_IN_PROGRESS")
    assert held.headers["Retry-After"] == "1"
    assert held.costs() == ("0.0000", "0.0000", "10.0000", "0")
    assert world.position(tenant).open_reservations_usd_micros == 0
    world.ledger.client.delete(lock)
    assert api.submit(tenant, a_body(), key=KEY).status == 202


def test_a_held_lock_of_another_payload_is_a_conflict(api: ApiClient, world: World) -> None:
    """RUN-4: a retry can't succeed, so there is no Retry-After."""
    tenant = world.tenant()
    world.ledger.client.set(f"idem_lock:{tenant.tenant_id}:{KEY}", f"another-run {'0' * 64}", ex=5)
    held = api.submit(tenant, a_body(), key=KEY)
    assert (held.status, held.body["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert "Retry-After" not in held.headers


def test_without_its_mapping_the_key_is_guarded_by_the_index(api: ApiClient, world: World) -> None:
    """D4: Redis lost the mapping; the second request is refunded and gets the first receipt."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    world.ledger.client.delete(f"idem:{tenant.tenant_id}:{KEY}")
    before = footprint(world, tenant)
    again = api.submit(tenant, a_body(), key=KEY)
    assert (again.status, again.text, again.costs()) == (202, first.text, first.costs())
    assert footprint(world, tenant) == before
    conflict = api.submit(tenant, a_body(reservation={"max_cost_usd": "0.1"}), key=KEY)
    assert (conflict.status, conflict.body["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert conflict.costs() == ("0.0000", "0.0000", "9.7500", "0")
    assert footprint(world, tenant) == before


def test_without_its_mapping_a_replay_needs_no_money(api: ApiClient, world: World) -> None:
    """D4, RUN-4: a paid run's receipt is not refused because the run used up the budget."""
    tenant = world.tenant(credit_usd_micros=A_RESERVATION)
    first = api.submit(tenant, a_body(), key=KEY)
    world.ledger.client.delete(f"idem:{tenant.tenant_id}:{KEY}")
    again = api.submit(tenant, a_body(), key=KEY)
    assert (again.status, again.text) == (202, first.text)
    assert world.position(tenant).balanced


def test_a_key_belongs_to_its_tenant(api: ApiClient, world: World) -> None:
    """RUN-2: two tenants with the same key create two runs."""
    one, two = world.tenant(), world.tenant()
    runs = {api.submit(tenant, a_body(), key=KEY).body["run_id"] for tenant in (one, two)}
    assert len(runs) == 2


def test_a_key_is_the_same_bare_and_quoted(api: ApiClient, world: World) -> None:
    """RUN-2: the IETF draft quotes the key; most clients do not."""
    tenant = world.tenant()
    bare = api.submit(tenant, a_body(), key=KEY)
    assert api.submit(tenant, a_body(), key=f'"{KEY}"').text == bare.text
    assert api.submit(tenant, a_body(), key=f' "{KEY}"\t').text == bare.text


def test_keys_of_8_to_64_visible_characters_are_accepted(api: ApiClient, world: World) -> None:
    """RUN-2."""
    tenant = world.tenant()
    for key in ("k" * 8, "k" * 64, '"' + "q" * 64 + '"', "!#$%&'()*+,-./:;<=>?@[]^_`{|}~"):
        assert api.submit(tenant, a_body(), key=key).status == 202, key
    assert world.position(tenant).open_reservations_usd_micros == 4 * A_RESERVATION


REFUSED_KEYS: tuple[str | list[str], ...] = (
    [],
    "",
    "k" * 7,
    "k" * 65,
    '"' + "k" * 7 + '"',
    '"' + "k" * 65 + '"',
    '"' + "k" * 10,
    "k" * 10 + '"',
    "with a blank",
    "with\ta-tab",
    "with\x00nul-",
    "back\\slash",
    'quo"te-inside',
    "schlüssel-1",
    "열쇠열쇠열쇠열쇠",
    "\u00a0padded-key\u00a0",
    ["one-of-two", "two-of-two"],
    ["same-twice", "same-twice"],
)


def test_other_keys_are_a_400_and_reserve_nothing(api: ApiClient, world: World) -> None:
    """RUN-2: missing, too short, too long, not ASCII, sent twice."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    for key in REFUSED_KEYS:
        answer = api.submit(tenant, a_body(), key=key)
        assert (answer.status, answer.body["reason_code"]) == (400, "MALFORMED_REQUEST"), key
        assert "Idempotency-Key" in answer.body["detail"]
    assert footprint(world, tenant) == before


def _hash_of(api: ApiClient, world: World) -> str:
    """The payload hash of `a_body()`, read from a mapping."""
    tenant = world.tenant()
    api.submit(tenant, a_body(), key=KEY)
    return str(world.ledger.client.hget(f"idem:{tenant.tenant_id}:{KEY}", "payload_hash"))
