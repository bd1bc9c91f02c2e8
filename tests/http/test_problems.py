"""Every error is a problem document with cost headers (RUN-9, RUN-13), and a 500 reveals no internals."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from dpp.packs.contract import PackType
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp.runs import store, submit_store
from dpp.runs.api.problems import PROBLEMS
from tests.http.faulty import Faulty
from tests.http.state import footprint
from tests.support.api import COST_HEADERS, Answer, ApiClient, a_body
from tests.support.world import Tenant, World

type Ask = Callable[[ApiClient, Tenant, World], Answer]
RUN = a_body()
KEY = "a-key-of-mine"


def conflict(api: ApiClient, tenant: Tenant, _world: World) -> Answer:
    """Submit two payloads with one key."""
    api.submit(tenant, RUN, key=KEY)
    return api.submit(tenant, a_body(inputs={"question": "Another?"}), key=KEY)


def expired(api: ApiClient, tenant: Tenant, world: World) -> Answer:
    """Read a run past its retention."""
    run_id = api.submit(tenant, RUN).body["run_id"]
    world.sql("UPDATE runs SET retention_until = now()")
    return api.read(tenant, run_id)


def limited(api: ApiClient, _tenant: Tenant, world: World) -> Answer:
    """Send the second request of a tenant with one a minute."""
    slow = world.tenant(rate_limit_per_minute=1)
    api.read(slow, "x")
    return api.read(slow, "x")


ERRORS: dict[str, Ask] = {
    "400 MALFORMED_REQUEST": lambda api, tenant, _: api.submit(tenant, RUN, key="short"),
    "401 AUTH_INVALID": lambda api, _tenant, _world: api.submit(None, RUN),
    "402 BUDGET_DRAINED": lambda api, _, world: api.submit(world.tenant(credit_usd_micros=0), RUN),
    "404 NOT_FOUND": lambda api, tenant, _: api.read(tenant, str(uuid4())),
    "405 METHOD_NOT_ALLOWED": lambda api, tenant, _: api.call("DELETE", "/v1/runs", tenant),
    "409 IDEMPOTENCY_CONFLICT": conflict,
    "410 RUN_EXPIRED": expired,
    "413 PAYLOAD_TOO_LARGE": lambda api, tenant, _: api.submit(tenant, None, raw=" " * 1_048_577),
    "415 UNSUPPORTED_MEDIA_TYPE": lambda api, tenant, _: api.submit(
        tenant, RUN, headers={"Content-Type": "text/plain"}
    ),
    "422 VALIDATION_FAILED": lambda api, tenant, _: api.submit(tenant, {}),
    "422 PACK_NOT_AVAILABLE": lambda api, tenant, _: api.submit(tenant, a_body(pack_type="url")),
    "429 RATE_LIMITED": limited,
}


def assert_problem(answer: Answer, expected: str, path: str) -> None:
    """Content type, the members of RFC 9457 and of 001 §7.1, and the cost headers."""
    status, _, reason_code = expected.partition(" ")
    body = answer.body
    assert answer.status == body["status"] == int(status), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert body["reason_code"] == reason_code
    assert body["type"] == f"urn:dpp:problem:{reason_code.lower().replace('_', '-')}"
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == path
    assert body["trace_id"] == answer.headers["X-Trace-Id"]
    assert set(body) <= {
        *("type", "title", "status", "detail", "instance", "reason_code", "trace_id", "run_id", "errors")
    }
    assert all(answer.headers[name] for name in COST_HEADERS)
    assert answer.headers["Cache-Control"] == "no-store"


def test_each_error_is_a_problem_document(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-9, RUN-13: every kind that a client can cause, in a deployment with the decision pack only."""
    monkeypatch.setattr("dpp.runs.api.http.INPUT_MODELS", {PackType.DECISION: DecisionInputs})
    for expected, ask in ERRORS.items():
        tenant = world.tenant()
        answer = ask(api, tenant, world)
        path = "/v1/runs" if answer.body["instance"] == "/v1/runs" else answer.body["instance"]
        assert path.startswith("/v1/runs")
        assert_problem(answer, expected, path)


def test_reason_codes_are_unique_and_have_one_title() -> None:
    """RUN-9: a client may distinguish errors by reason_code only."""
    kinds = [value for value in vars(problem).values() if isinstance(value, ProblemKind)]
    kinds += list(PROBLEMS.values())
    by_code: dict[str, set[ProblemKind]] = {}
    for kind in kinds:
        by_code.setdefault(kind.reason_code, set()).add(kind)
    assert all(len(found) == 1 for found in by_code.values())
    assert {"AUTH_INVALID", "BUDGET_DRAINED", "IDEMPOTENCY_CONFLICT", "RATE_LIMITED"} <= set(by_code)


def test_the_run_id_is_in_the_problem_if_known(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-9: in the 409, the 410 and the 503 of the queue, not in a 404."""
    tenant = world.tenant()
    assert conflict(api, tenant, world).body["run_id"]
    assert expired(api, tenant, world).body["run_id"]
    broken.lose_sqs()
    assert api.submit(tenant, RUN).body["run_id"]
    assert "run_id" not in api.read(tenant, str(uuid4())).body


def test_other_methods_are_a_405_with_allow(api: ApiClient, world: World) -> None:
    """RUN-9, RFC 9110: Allow."""
    for method in ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"):
        answer = api.call(method, "/v1/runs", world.tenant())
        assert_problem(answer, "405 METHOD_NOT_ALLOWED", "/v1/runs")
        assert answer.headers["Allow"] == "POST", method


def test_a_run_and_the_health_paths_are_only_read(api: ApiClient, world: World) -> None:
    """RUN-9: 405 with Allow: GET."""
    for path in (f"/v1/runs/{uuid4()}", "/healthz", "/readyz"):
        answer = api.call("POST", path, world.tenant(), body="{}")
        assert_problem(answer, "405 METHOD_NOT_ALLOWED", path)
        assert answer.headers["Allow"] == "GET"


def test_unknown_paths_are_a_404_with_an_encoded_instance(api: ApiClient) -> None:
    """RUN-9: `instance` is a URI reference, although the gateway decodes the path."""
    for path, instance in (
        ("/", "/"),
        ("/v2/runs", "/v2/runs"),
        ('/a b"<ü>\n', "/a%20b%22%3C%C3%BC%3E%0A"),
        ("/50%%C2%B6%", "/50%25%C2%B6%25"),
    ):
        assert_problem(api.call("GET", path), "404 NOT_FOUND", instance)


@pytest.mark.parametrize("call", ["submit", "read"])
def test_a_500_reveals_no_internals(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """RUN-9, RUN-31: no class, message, file or value. The jobs refund the reservation (D2)."""
    tenant = world.tenant()

    def explode(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("s3cret of the inside")

    monkeypatch.setattr(*((submit_store, "insert") if call == "submit" else (store, "find_for_owner")), explode)
    answer = api.submit(tenant, RUN) if call == "submit" else api.read(tenant, str(uuid4()))
    assert answer.status == 500
    assert_problem(answer, "500 INTERNAL_ERROR", answer.body["instance"])
    for inside in ("s3cret", "RuntimeError", "Traceback", ".py", "dpp."):
        assert inside not in answer.text


def test_a_function_without_its_environment_returns_a_500(
    api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-9: also a problem document, which names no variable."""
    monkeypatch.delenv("DATABASE_URL")
    answer = api.submit(world.tenant(), RUN)
    assert_problem(answer, "500 INTERNAL_ERROR", "/v1/runs")
    assert "DATABASE_URL" not in answer.text


def test_a_valid_trace_id_of_the_client_is_kept(api: ApiClient, world: World) -> None:
    """001 §7.1: from X-Trace-Id; one that could break a log line or a header is replaced."""
    tenant = world.tenant()
    kept = api.submit(tenant, {}, headers={"X-Trace-Id": "t_of:the.client-1"})
    assert kept.body["trace_id"] == "t_of:the.client-1"
    for unfit in ("", "a b", "x" * 65, "a\r\nSet-Cookie: x", "ü", '"'):
        answer = api.submit(tenant, {}, headers={"X-Trace-Id": unfit})
        assert answer.body["trace_id"].startswith("t_")
        assert answer.body["trace_id"] != unfit


def test_the_trace_id_of_the_body_has_precedence_over_the_header(api: ApiClient, world: World) -> None:
    """RUN-3, 001 §7.1: the run has meta.trace_id, or else that of the header."""
    tenant = world.tenant()
    headers = {"X-Trace-Id": "t_header"}
    both = api.submit(tenant, a_body(meta={"trace_id": "t_body"}), headers=headers)
    assert (both.body["meta"]["trace_id"], both.headers["X-Trace-Id"]) == ("t_body", "t_body")
    header = api.submit(tenant, RUN, headers=headers)
    assert header.body["meta"]["trace_id"] == header.headers["X-Trace-Id"] == "t_header"


def test_an_event_with_null_members_gets_a_response(api: ApiClient, world: World) -> None:
    """RUN-9: null headers and a null body, as from the gateway."""
    before = footprint(world, tenant := world.tenant())
    assert api.call("POST", "/v1/runs").status == 401
    assert api.call("POST", "/v1/runs", tenant).status == 400
    assert footprint(world, tenant) == before
