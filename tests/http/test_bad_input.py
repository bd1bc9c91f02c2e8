"""Invalid requests (RUN-3, RUN-9, D12): each gets a problem document and reserves nothing."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest

from dpp.packs.contract import PackType
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.http.request import MAX_BODY_BYTES
from tests.http.state import footprint
from tests.support.api import COST_HEADERS, Answer, ApiClient, a_body
from tests.support.world import World

GOOD = json.dumps(a_body())
QUESTION = '{"pack_type":"decision","reservation":{"max_cost_usd":"0.25"},"inputs":{"question":%s}}'
URLS = ["https://example.com"]


def nested(depth: int) -> str:
    """A body with `depth` levels of nesting, including the body itself."""
    inside = depth - 2
    return QUESTION % ("[" * inside + "]" * inside)


UNREADABLE: dict[str, str | bytes] = {
    "empty": "",
    "blank": "  ",
    "cut off": GOOD[:-1],
    "trailing": GOOD + "x",
    "two values": GOOD + GOOD,
    "single quotes": GOOD.replace('"', "'"),
    "a name twice": '{"pack_type":"url",' + GOOD[1:],
    "a name twice, deep inside": QUESTION % '{"a":1,"a":1}',
    "a name twice by escapes": QUESTION % '{"a":1,"\\u0061":1}',
    "deeper than 64": nested(65),
    "very deep": "[" * 500_000,
    "NUL in a string": QUESTION % '"a\\u0000b"',
    "NUL in a name": QUESTION % '{"a\\u0000b":1}',
    "a lone surrogate": QUESTION % '"\\ud800"',
    "a lone low surrogate in a name": QUESTION % '{"\\udc00":1}',
    "an integer beyond 2^53": QUESTION % "9007199254740992",
    "a negative integer beyond 2^53": QUESTION % "-9007199254740992",
    "an integer of 5000 digits": QUESTION % ("9" * 5_000),
    "a float that overflows": QUESTION % "1e400",
    "NaN": QUESTION % "NaN",
    "Infinity": QUESTION % "-Infinity",
    "a leading zero": QUESTION % "01",
    "a comment": GOOD + "// done",
    "a byte order mark": "\ufeff" + GOOD,
    "UTF-16": GOOD.encode("utf-16"),
    "no UTF-8": b'{"pack_type": "\xff\xfe"}',
    "overlong UTF-8": (QUESTION % '"X"').encode().replace(b"X", b"\xc0\xaf"),
    "a surrogate as UTF-8 bytes": (QUESTION % '"X"').encode().replace(b"X", b"\xed\xa0\x80"),
}

TIMEBOXES: tuple[Any, ...] = (0, 91, -1, 1.5, True, "90", None, 2**53 - 1)
RELIABILITIES: tuple[Any, ...] = (-0.1, 1.1, -1e-9, 1.0000001, "0.8", True, None, [])
INLINES: tuple[Any, ...] = (2, -1, True, False, "1", 0.5, None)
NO_OBJECTS: tuple[Any, ...] = ([], "x", 1)
DECISIONS: tuple[dict[str, Any], ...] = (
    {},
    {"question": ""},
    {"question": "  "},
    {"question": "x" * 4_001},
    {"question": 7},
    {"question": "?", "context": "c" * 200_001},
    {"question": "?", "mode": "long"},
    {"question": "?", "surprise": 1},
)
FETCHES: tuple[dict[str, Any], ...] = (
    {},
    {"urls": []},
    {"urls": URLS * 31},
    {"urls": "https://example.com"},
    {"urls": [""]},
    {"urls": ["https://e.com/" + "x" * 2_048]},
    {"urls": URLS, "max_urls": 0},
    {"urls": URLS, "max_redirect_hops": 6},
    {"urls": URLS, "fetch_timeout_sec": 31},
    {"urls": URLS, "block_private_ip": False},
    {"urls": URLS, "allow_http": True, "allow_https_only": True},
)
PATTERNS = ("(", "a**", r"(?=x)x", r"(a)\1", "a*", "", "x{1001}", "[b-a]")
RESERVATIONS: tuple[dict[str, Any], ...] = (
    *(
        {"max_cost_usd": amount}
        for amount in (
            *("0.25000", "1e2", "1E2", "-1", "+1", " 1", "1 ", "1\n", "１.0", "٣", "NaN", "Infinity", "", "0"),
            *("0.0", "0.0000", ".5", "5.", "00.5", "01", "1,000", "1_000", "0x10", "$1", "1.2.3"),
            *("9007199254.7410", "9007199255", "99999999999", "9" * 400),
            *(0.25, 1, None, True, ["0.25"], {"usd": "0.25"}),
        )
    ),
    *({"max_cost_usd": "0.25", "timebox_sec": value} for value in TIMEBOXES),
    *({"max_cost_usd": "0.25", "min_reliability_score": value} for value in RELIABILITIES),
    {},
    {"max_cost_usd": "0.25", "max_cost": "0.25"},
)
MISFITS: tuple[Any, ...] = (
    *(
        a_body(
            pack_type="compliance",
            inputs={"documents": [{"id": "a", "text": ""}], "patterns": [{"id": "p", "pattern": pattern}]},
        )
        for pattern in PATTERNS
    ),
    a_body(pack_type="ocr", inputs={"images": [{"kind": "s3", "bucket": "b-of-others", "key": "inputs/t_a/x"}]}),
    *(a_body(reservation=reservation) for reservation in RESERVATIONS),
    *(a_body(options=options) for options in ({"inline": value} for value in INLINES)),
    *(a_body(meta=meta) for meta in ({"trace_id": ""}, {"trace_id": "t" * 65}, {"trace_id": "a b"}, {"x": 1})),
    *(a_body(meta={"trace_id": trace_id}) for trace_id in ("t\n", "ü", "a\r\nX-Evil: 1", 7)),
    a_body(meta={"profile_version": "PROFILE_OTHER"}),
    *(a_body(pack_type=pack) for pack in ("DECISION", "", "other", None, 1, ["decision"])),
    *(a_body(**{name: value}) for name in ("inputs", "options", "meta", "reservation") for value in NO_OBJECTS),
    a_body(unknown=1),
    a_body(artifacts={}),
    {"pack_type": "decision"},
    *([], None, "text", 7, True),
    *(a_body(inputs=inputs) for inputs in DECISIONS),
    *(a_body(pack_type="url", inputs=inputs) for inputs in FETCHES),
)


def assert_problem(answer: Answer, status: int, reason_code: str) -> None:
    """RFC 9457 with the members of 001 §7.1, and the cost headers."""
    assert (answer.status, answer.body["reason_code"]) == (status, reason_code)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "instance", "reason_code", "trace_id"} <= set(answer.body)
    assert answer.costs() == ("0.0000", "0.0000", "0.0000", "0")
    assert set(COST_HEADERS) <= set(answer.headers)


def test_unreadable_bodies_are_a_400_and_reserve_nothing(api: ApiClient, world: World) -> None:
    """RUN-9, D12: malformed, ambiguous or unstorable JSON never reaches a driver."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    for name, body in UNREADABLE.items():
        for sent in (body, body.encode("utf-8") if isinstance(body, str) else body):
            answer = api.submit(tenant, None, raw=sent)
            assert answer.status == 400, (name, answer.text)
            assert_problem(answer, 400, "MALFORMED_REQUEST")
    assert footprint(world, tenant) == before


def test_bodies_that_violate_the_schema_are_a_422_and_reserve_nothing(api: ApiClient, world: World) -> None:
    """RUN-3, RUN-9: amounts, timebox, reliability, options, meta, inputs of each pack, unknown members."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    for body in MISFITS:
        answer = api.submit(tenant, None, raw=json.dumps(body))
        assert answer.status == 422, (body, answer.text)
        assert_problem(answer, 422, "VALIDATION_FAILED")
        assert answer.body["errors"], body
        assert all(set(fault) == {"pointer", "detail"} for fault in answer.body["errors"])
        assert "Value error" not in answer.text
    assert footprint(world, tenant) == before


def test_a_422_names_each_fault_by_its_pointer(api: ApiClient, world: World) -> None:
    """RUN-9: JSON Pointers into the client's body, without repeating values."""
    body = a_body(reservation={"max_cost_usd": "s3cret"}, inputs={"mode": "s3cret", "a/b~c": "s3cret"})
    answer = api.submit(world.tenant(), body | {"options": {"inline": 9}})
    assert [fault["pointer"] for fault in answer.body["errors"]] == ["/reservation/max_cost_usd", "/options/inline"]
    assert answer.body["errors"][0]["detail"].startswith("must be a decimal string")
    inputs = api.submit(world.tenant(), a_body(inputs=body["inputs"]))
    pointers = {fault["pointer"] for fault in inputs.body["errors"]}
    assert pointers == {"/inputs/question", "/inputs/mode", "/inputs/a~1b~0c"}
    assert "s3cret" not in answer.text + inputs.text


def test_packs_that_are_not_available_are_refused(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-3, RUN-28: a pack that this deployment lacks has its own 422."""
    monkeypatch.setattr("dpp.runs.api.http.INPUT_MODELS", {PackType.DECISION: DecisionInputs})
    tenant = world.tenant()
    before = footprint(world, tenant)
    for pack in ("ocr", "url", "compliance", "eval"):
        assert_problem(api.submit(tenant, a_body(pack_type=pack, inputs={})), 422, "PACK_NOT_AVAILABLE")
    assert footprint(world, tenant) == before


def test_a_body_has_at_most_one_mebibyte(api: ApiClient, world: World) -> None:
    """RUN-9: counted in bytes of UTF-8, as text and as base64."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    fits = GOOD + " " * (MAX_BODY_BYTES - len(GOOD))
    for body in (fits + " ", (fits + " ").encode(), " " * (MAX_BODY_BYTES - 1) + "é"):
        assert_problem(api.submit(tenant, None, raw=body), 413, "PAYLOAD_TOO_LARGE")
    assert footprint(world, tenant) == before
    assert api.submit(tenant, None, raw=fits).status == 202
    assert api.submit(tenant, None, raw=fits.encode()).status == 202


def test_only_json_in_utf8_is_accepted(api: ApiClient, world: World) -> None:
    """RUN-9: 415 for any other media type or charset, for none, and for two at once."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    refused: tuple[str | list[str], ...] = (
        *("text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json+x", ""),
        *("application/json; charset=latin-1", "application/json; charset=utf-16", "json", "*/*"),
        [],
    )
    for content_type in refused:
        answer = api.submit(tenant, a_body(), headers={"Content-Type": content_type})
        assert answer.status == 415, content_type
        assert_problem(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    twice = api.submit(tenant, a_body(), headers={"Content-Type": ["application/json", "text/plain"]})
    assert_problem(twice, 400, "MALFORMED_REQUEST")
    assert footprint(world, tenant) == before


def test_a_charset_of_utf8_is_accepted(api: ApiClient, world: World) -> None:
    """RUN-9: RFC 8259 has no charset parameter, but many clients send one."""
    tenant = world.tenant()
    for content_type in ("application/json;charset=utf-8", 'Application/JSON ; Charset="UTF-8"', " application/json;"):
        assert api.submit(tenant, a_body(), headers={"Content-Type": content_type}).status == 202, content_type


def test_broken_base64_from_the_gateway_is_a_400(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-9: not a 500."""
    monkeypatch.setattr(base64, "b64encode", lambda _body: b"!not base64!")
    assert_problem(api.submit(world.tenant(), None, raw=b"{}"), 400, "MALFORMED_REQUEST")


@pytest.mark.parametrize(
    ("pack", "inputs", "least"),
    [
        ("decision", {"question": "?"}, "0.0500"),
        ("decision", {"question": "?", "context": "c" * 4_000}, "0.0501"),
        ("url", {"urls": URLS}, "0.0050"),
        ("ocr", {"images": [{"kind": "inline", "data": "aW1hZ2U="}]}, "0.0071"),
        ("compliance", {"documents": [{"id": "a", "text": "x" * 10_001}]}, "0.0110"),
        (
            "eval",
            {
                "predictions": [{"id": "a", "value": "1"}],
                "references": [{"id": "a", "value": "1"}],
                "metrics": [{"type": "exact_match"}],
            },
            "0.0105",
        ),
    ],
)
def test_a_reservation_below_the_least_price_is_a_422_that_costs_nothing(
    api: ApiClient, world: World, pack: str, inputs: dict[str, Any], least: str
) -> None:
    """RUN-3, RUN-9: what no result can cost is known at submit; the least price itself is accepted."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    below = f"{Decimal(least) - Decimal('0.0001')}"
    refused = api.submit(tenant, a_body(pack_type=pack, inputs=inputs, reservation={"max_cost_usd": below}))
    assert_problem(refused, 422, "VALIDATION_FAILED")
    [fault] = refused.body["errors"]
    assert fault["pointer"] == "/reservation/max_cost_usd"
    assert f"at least {least}" in fault["detail"]
    assert footprint(world, tenant) == before
    body = a_body(pack_type=pack, inputs=inputs, reservation={"max_cost_usd": least})
    assert api.submit(tenant, body).status == 202


def test_values_at_the_limits_are_accepted(api: ApiClient, world: World) -> None:
    """RUN-3."""
    tenant = world.tenant(credit_usd_micros=2**53 - 1)
    bodies = (
        a_body(reservation={"max_cost_usd": "0.0500", "timebox_sec": 90.0}, options={"inline": 1.0}),
        a_body(reservation={"max_cost_usd": "0.05", "timebox_sec": 1, "min_reliability_score": 0}),
        a_body(reservation={"max_cost_usd": "1", "timebox_sec": 90, "min_reliability_score": 1.0}),
        a_body(inputs={"question": "x" * 4_000, "context": "c" * 200_000, "mode": "full"}),
        a_body(inputs={"question": "값 😀 \u2028", "context": None}),
        a_body(pack_type="url", inputs={"urls": URLS * 30, "max_urls": 30, "max_redirect_hops": 0}),
        a_body(options={"inline": 0}, meta={"trace_id": "A-Za-z0-9_.:" + "x" * 52}),
        a_body(reservation={"max_cost_usd": "9007190000.0001"}),
    )
    for body in bodies:
        answer = api.submit(tenant, body)
        assert answer.status == 202, (body, answer.text)
    assert world.position(tenant).balanced
