"""The payload hash (RUN-5): equal for two requests that buy the same."""

import hashlib
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.money.micros import MAX_AMOUNT_USD_MICROS, format_usd, parse_usd
from dpp.runs.payload_hash import payload_hash
from tests.support.api import ApiClient, a_body
from tests.support.world import World

KEY = "a-key-of-mine"
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
inputs = st.dictionaries(text, json_values, max_size=4)
few = settings(max_examples=40, deadline=None)
micros = st.integers(1, MAX_AMOUNT_USD_MICROS // 100).map(lambda steps: steps * 100)


def reversed_members(value: Any) -> Any:
    """The same JSON value with the members of every object reversed."""
    if isinstance(value, dict):
        return {name: reversed_members(value[name]) for name in reversed(value)}
    return [reversed_members(item) for item in value] if isinstance(value, list) else value


def test_the_hash_is_sha256_over_canonical_json() -> None:
    """RUN-5: sorted names, no blanks, UTF-8; any client can compute it."""
    canonical = '{"inputs":{"a":1,"b":"값"},"max_cost_usd":"0.2500","pack_type":"decision","timebox_sec":90}'
    expected = hashlib.sha256(canonical.encode()).hexdigest()
    assert payload_hash("decision", {"b": "값", "a": 1}, 90, 250_000) == expected


@few
@given(inputs=inputs, amount=micros)
def test_the_order_of_members_is_ignored(inputs: dict[str, Any], amount: int) -> None:
    """RUN-5."""
    assert payload_hash("url", inputs, 90, amount) == payload_hash("url", reversed_members(inputs), 90, amount)


@few
@given(inputs=inputs, amount=micros)
def test_a_round_trip_through_json_changes_nothing(inputs: dict[str, Any], amount: int) -> None:
    """RUN-5: the hash is of the value, not of its serialization."""
    again = json.loads(json.dumps(inputs, indent=3, ensure_ascii=True))
    assert payload_hash("url", inputs, 1, amount) == payload_hash("url", again, 1, amount)


@few
@given(one=inputs, other=inputs, amount=micros)
def test_other_inputs_are_another_payload(one: dict[str, Any], other: dict[str, Any], amount: int) -> None:
    """RUN-5: hashes are equal exactly if the JSON texts are; 1, true and "1" differ."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (payload_hash("url", one, 90, amount) == payload_hash("url", other, 90, amount)) == same


@few
@given(inputs=inputs, amount=micros, timebox=st.integers(1, 89))
def test_each_included_part_changes_the_hash(inputs: dict[str, Any], amount: int, timebox: int) -> None:
    """RUN-5: pack_type, inputs, timebox, max cost."""
    variants = {
        payload_hash("url", inputs, timebox, amount),
        payload_hash("decision", inputs, timebox, amount),
        payload_hash("url", inputs, timebox + 1, amount),
        payload_hash("url", inputs, timebox, amount + 100),
        payload_hash("url", {**inputs, "one more": None}, timebox, amount),
    }
    assert len(variants) == 5


@few
@given(amount=micros)
def test_amounts_are_compared_by_value(amount: int) -> None:
    """RUN-5, RUN-3: "0.25" equals "0.2500"."""
    written = format_usd(amount)
    shortest = written.rstrip("0").rstrip(".")
    assert parse_usd(written) == parse_usd(shortest) == amount


def test_requests_that_buy_the_same_have_the_same_payload(api: ApiClient, world: World) -> None:
    """RUN-5 over HTTP: with another order, number format, explicit defaults, trace id or options."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    same: list[dict[str, Any]] = [
        dict(reversed(a_body().items())),
        a_body(reservation={"max_cost_usd": "0.25"}),
        a_body(reservation={"max_cost_usd": "0.250"}),
        a_body(reservation={"timebox_sec": 90, "max_cost_usd": "0.2500"}),
        a_body(reservation={"min_reliability_score": 0.8, "max_cost_usd": "0.2500"}),
        a_body(reservation={"timebox_sec": 90.0, "max_cost_usd": "0.2500"}),
        a_body(options={"inline": 1}),
        a_body(meta={"trace_id": "t_other", "profile_version": "PROFILE_DPP_0_4_2_2"}),
    ]
    for body in same:
        assert api.submit(tenant, body, key=KEY).text == first.text, body


def test_requests_that_buy_something_else_have_another_payload(api: ApiClient, world: World) -> None:
    """RUN-5 over HTTP: each included part causes a conflict."""
    tenant = world.tenant()
    api.submit(tenant, a_body(), key=KEY)
    other: list[dict[str, Any]] = [
        a_body(pack_type="url", inputs={"urls": ["https://example.com"]}),
        a_body(inputs={"question": "What is the answer? "}),
        a_body(inputs={"question": "What is the answer?", "mode": "full"}),
        a_body(reservation={"max_cost_usd": "0.2501"}),
        a_body(reservation={"max_cost_usd": "0.25", "timebox_sec": 89}),
    ]
    for body in other:
        answer = api.submit(tenant, body, key=KEY)
        assert (answer.status, answer.body["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT"), body
