"""Tool calls as submits, and when two calls are the same run (RUN-33), by the request's exact digits."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.money.micros import format_usd
from dpp.platform.db.rate_limit import RETRY_AFTER_SECONDS
from dpp.platform.errors import PostgresUnavailable, RedisUnavailable
from dpp.runs.api.tools import exact_usd
from tests.mcp.posted import Posted, call, handshake, modern, post, problem, receipt
from tests.support.api import COST_HEADERS, ApiClient, a_body
from tests.support.world import Tenant, World


def asking(cost: str, **others: Any) -> Posted:
    """A decision call with this amount, in this notation."""
    rest = json.dumps({"question": "Why?"} | others).removeprefix("{")
    return call(f'{{"max_cost_usd":{cost},{rest}')


def runs(world: World, tenant: Tenant) -> list[tuple[str, int]]:
    """The tenant's runs: key and reservation."""
    statement = "SELECT idempotency_key, reservation_max_cost_usd_micros FROM runs WHERE tenant_id = %s"
    return [(str(key), int(micros)) for key, micros in world.sql(statement, (tenant.tenant_id,))]


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("0.01", 10_000),
        ("0.0101", 10_100),
        ("0.25000000000000000000000000000000000000", 250_000),
        ("1", 1_000_000),
        ("1.0", 1_000_000),
        ("1e-2", 10_000),
        ("25.00E-2", 250_000),
        ("3.3333", 3_333_300),
        ("0.1234", 123_400),
    ],
)
def test_an_amount_has_the_value_of_its_digits(api: ApiClient, world: World, written: str, micros: int) -> None:
    """RUN-23: by value, as JSON has one kind of number; nothing is rounded."""
    tenant = world.tenant()
    arguments = f'{{"urls":["https://example.com/"],"max_cost_usd":{written}}}'
    accepted = receipt(post(api, tenant, call(arguments, "dpp_url_run_submit")))
    assert accepted["reservation"]["max_cost_usd"] == format_usd(micros)
    assert [reserved for _, reserved in runs(world, tenant)] == [micros]
    assert world.position(tenant).balance_usd_micros == 10_000_000 - micros


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("0.12345", "must have at most 4 decimal places"),
        ("0.30000000000000004", "must have at most 4 decimal places"),  # 0.1 + 0.2 as a float
        ("0.25000000000000000000000000000000000001", "must have at most 4 decimal places"),  # 0.25 as a float
        ("12345e-5", "must have at most 4 decimal places"),
        ("1e-300", "must have at most 4 decimal places"),
        ("0.0099", "must be at least 0.0100"),
        ("0", "must be at least 0.0100"),
        ("0.0", "must be at least 0.0100"),
        ("-0.25", "must be at least 0.0100"),
        ("1e12", "is larger than the platform can hold"),
        ("12345678901.5", "is larger than the platform can hold"),
        ("9999999999.5", "is larger than the platform can hold"),
        ('"0.25"', "must be a number"),
        ("true", "must be a number"),
        ("null", "must be a number"),
        ("[0.25]", "must be a number"),
    ],
)
def test_an_amount_with_too_many_places_reserves_nothing(api: ApiClient, world: World, written: str, why: str) -> None:
    """RUN-33: more than 4 places are refused, whatever a float would round them to."""
    tenant = world.tenant()
    refused = problem(post(api, tenant, asking(written)))
    assert (refused["reason_code"], refused["errors"]) == (
        "VALIDATION_FAILED",
        [{"pointer": "/max_cost_usd", "detail": why}],
    )
    assert (runs(world, tenant), world.position(tenant).balance_usd_micros) == ([], 10_000_000)


def test_an_amount_of_a_million_digits_is_refused_at_once(api: ApiClient, world: World) -> None:
    for written in ("0." + "5" * 900_000, "0.5" + "0" * 900_000 + "1"):
        refused = problem(post(api, world.tenant(), asking(written)))
        assert "at most 4" in refused["errors"][0]["detail"]
    assert receipt(post(api, world.tenant(), asking("0.5" + "0" * 900_000)))


@given(st.integers(min_value=100, max_value=9_007_199_254_740), st.integers(min_value=0, max_value=30))
def test_every_amount_of_four_places_is_exact_in_every_notation(steps: int, zeros: int) -> None:
    """RUN-23."""
    amount = Decimal(steps).scaleb(-4)
    assert exact_usd(Decimal(f"{amount:f}" + "0" * zeros)) == format_usd(steps * 100)
    assert exact_usd(Decimal(f"{steps}e-4")) == format_usd(steps * 100)


def test_the_same_arguments_are_one_run_whatever_the_request_id(api: ApiClient, world: World) -> None:
    """RUN-4, RUN-33: in any order and notation, with or without the defaults."""
    tenant = world.tenant()
    first = post(api, tenant, asking("0.25"))
    spelled = '{"min_reliability_score":0.80,"timebox_sec":90,"max_cost_usd":2.5e-1,"question":"Wh\\u0079?"}'
    others = [
        post(api, tenant, asking("0.25")),
        post(api, tenant, asking("0.2500"), {"Mcp-Session-Id": "another"}),
        post(api, tenant, call(spelled)),
        post(api, tenant, Posted(asking("0.25").body.replace('"id": 7', '"id": "other"'), asking("1").headers)),
    ]
    assert first.headers["Idempotent-Replayed"] == "false"
    assert {answer.headers["Idempotent-Replayed"] for answer in others} == {"true"}
    assert {receipt(answer)["run_id"] for answer in [first, *others]} == {receipt(first)["run_id"]}
    [(key, _)] = runs(world, tenant)
    assert key.startswith("mcp-")
    assert len(key) <= 64


@pytest.mark.parametrize(
    "other",
    [
        asking("0.26"),
        asking("0.25", question="Why not?"),
        asking("0.25", context="Because."),
        asking("0.25", timebox_sec=89),
        asking("0.25", min_reliability_score=0.5),
        asking("0.25", idempotency_key="once-more"),
        call('{"urls":["https://example.com/"],"max_cost_usd":0.25}', "dpp_url_run_submit"),
    ],
)
def test_any_difference_is_another_run(api: ApiClient, world: World, other: Posted) -> None:
    """RUN-33: even with the same request id, which every conversation begins with."""
    tenant = world.tenant()
    ids = {receipt(post(api, tenant, one))["run_id"] for one in (asking("0.25"), other)}
    assert (len(ids), len(runs(world, tenant))) == (2, 2)


def test_two_tenants_never_share_a_run(api: ApiClient, world: World) -> None:
    ids = {receipt(post(api, world.tenant(), asking("0.25")))["run_id"] for _ in range(2)}
    assert len(ids) == 2


def test_the_models_idempotency_key_works_like_posts_header(api: ApiClient, world: World) -> None:
    """RUN-4: the same key with another payload is a conflict, by either way."""
    tenant = world.tenant()
    ours = asking("0.25", question="What is the answer?", idempotency_key="shared-key")
    accepted = receipt(post(api, tenant, ours))
    posted = api.submit(tenant, a_body(), key="shared-key")
    assert (posted.status, posted.body["run_id"]) == (202, accepted["run_id"])
    other = problem(post(api, tenant, asking("0.25", idempotency_key="shared-key")))
    assert (other["reason_code"], other["run_id"]) == ("IDEMPOTENCY_CONFLICT", accepted["run_id"])


def test_a_rate_limited_model_gets_retry_after(api: ApiClient, world: World) -> None:
    """RUN-14."""
    tenant = world.tenant(rate_limit_per_minute=1)
    receipt(post(api, tenant, asking("0.25")))
    answer = post(api, tenant, asking("0.26"))
    refused = problem(answer)
    assert (refused["reason_code"], refused["retry_after_seconds"]) == ("RATE_LIMITED", RETRY_AFTER_SECONDS)
    assert (answer.headers["Retry-After"], answer.headers["X-RateLimit-Remaining"]) == ("30", "0")


@pytest.mark.parametrize("lost", [RedisUnavailable, PostgresUnavailable])
def test_an_outage_during_a_call_is_a_result_that_the_model_may_retry(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    """RUN-9: it may have taken effect, which does not matter."""

    def away(*_: object) -> None:
        raise lost

    tenant = world.tenant()
    with monkeypatch.context() as outage:
        outage.setattr("runs_mcp.handler.submit", away)
        refused = problem(post(api, tenant, asking("0.25")))
    assert (refused["reason_code"], refused["retry_after_seconds"]) == ("DEPENDENCY_UNAVAILABLE", 1)
    assert receipt(post(api, tenant, asking("0.25")))


def test_an_outage_before_authentication_is_a_problem_for_the_client(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-9: as everywhere."""

    def away(*_: object) -> None:
        raise PostgresUnavailable

    monkeypatch.setattr("runs_mcp.handler.authenticate", away)
    answer = post(api, world.tenant(), asking("0.25"))
    assert (answer.status, answer.body["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")
    assert answer.headers["Retry-After"] == "1"


def test_an_internal_error_is_a_500_without_internal_details(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("runs_mcp.handler.submit", broken)
    answer = post(api, world.tenant(), asking("0.25"))
    assert (answer.status, answer.body["reason_code"]) == (500, "INTERNAL_ERROR")
    assert "secret" not in answer.text


def test_every_answer_has_the_cost_headers(api: ApiClient, world: World) -> None:
    """RUN-13."""
    tenant = world.tenant(credit_usd_micros=300_000)
    taken = post(api, tenant, asking("0.25"))
    assert taken.costs() == ("0.2500", "0.0000", "0.0500", "0")
    refusal = post(api, tenant, asking("0.26"))
    assert (problem(refusal)["reason_code"], refusal.costs()) == ("BUDGET_DRAINED", ("0.0000", "0.0000", "0.0500", "0"))
    for other in (modern("tools/list"), modern("nothing"), handshake("notifications/initialized", id=None)):
        assert set(COST_HEADERS) <= set(post(api, tenant, other).headers)
    assert set(COST_HEADERS) <= set(api.call("GET", "/mcp", tenant).headers)


def test_a_fault_names_the_tools_argument(api: ApiClient, world: World) -> None:
    """RUN-33: not the member of the body that the call becomes."""
    tenant = world.tenant()
    wrong = {
        "{}": ["/reservation", "/max_cost_usd"],
        '{"max_cost_usd":1}': ["/question"],
        '{"max_cost_usd":1,"question":1}': ["/question"],
        '{"max_cost_usd":1,"question":1.5}': ["/question"],
        '{"max_cost_usd":1,"question":"Why?","timebox_sec":91}': ["/timebox_sec"],
        '{"max_cost_usd":1,"question":"Why?","timebox_sec":1.5}': ["/timebox_sec"],
        '{"max_cost_usd":1,"question":"Why?","min_reliability_score":1.01}': ["/min_reliability_score"],
        '{"max_cost_usd":1,"question":"Why?","idempotency_key":"short"}': ["/idempotency_key"],
        '{"max_cost_usd":1,"question":"Why?","idempotency_key":null}': ["/idempotency_key"],
        '{"max_cost_usd":1,"question":"Why?","mode":"full","a/b":1}': ["/mode", "/a~1b"],
    }
    for arguments, pointers in wrong.items():
        refused = problem(post(api, tenant, call(arguments)))
        assert refused["status"] == 422
        found = [fault["pointer"] for fault in refused["errors"]]
        assert found in (pointers, pointers[1:]), arguments
    ocr = {
        '{"max_cost_usd":1}': "/input_files",
        '{"max_cost_usd":1,"input_files":[]}': "/input_files",
        '{"max_cost_usd":1,"input_files":"one"}': "/input_files",
        '{"max_cost_usd":1,"input_files":[1]}': "/input_files",
        f'{{"max_cost_usd":1,"input_files":{json.dumps(["inputs/a/b"] * 11)}}}': "/input_files",
        f'{{"max_cost_usd":1,"input_files":["inputs/{tenant.tenant_id}/a","inputs/t_other/b"]}}': "/input_files/1",
        '{"max_cost_usd":1,"input_files":["data:image/png;base64,?"]}': "/input_files/0",
        '{"max_cost_usd":1,"input_files":["inputs/a/b"],"language":"fra"}': "/language",
        '{"max_cost_usd":1,"input_files":["inputs/a/b"],"artifacts":{"include_docx":1}}': "/artifacts/include_docx",
    }
    for arguments, place in ocr.items():
        refused = problem(post(api, tenant, call(arguments, "dpp_ocr_run_submit")))
        assert place in [fault["pointer"] for fault in refused["errors"]], arguments
    assert runs(world, tenant) == []


def test_a_file_is_an_object_of_the_tenant_or_inline(api: ApiClient, world: World) -> None:
    """RUN-27."""
    tenant = world.tenant()
    key = f"inputs/{tenant.tenant_id}/page.png"
    files = [key, f"s3://{world.bucket}/{key}", "data:application/pdf;base64,aGVsbG8="]
    accepted = receipt(
        post(api, tenant, call(json.dumps({"input_files": files, "max_cost_usd": 1}), "dpp_ocr_run_submit"))
    )
    [row] = world.sql("SELECT inputs FROM run_inputs WHERE run_id = %s", (accepted["run_id"],))
    assert row[0] == {
        "images": [
            {"kind": "s3", "key": key},
            {"kind": "s3", "bucket": world.bucket, "key": key},
            {"kind": "inline", "data": "aGVsbG8="},
        ]
    }
