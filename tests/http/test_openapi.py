"""The OpenAPI document: committed as generated, valid, and consistent with the functions' responses."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import jsonschema
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from schemathesis.core import NotSet
from schemathesis.core.failures import FailureGroup

from dpp.auth_errors.api import http as auth_errors_http
from dpp.lifecycle.flow.intake import webhook_http
from dpp.packs.contract import PackFailure, PackReason
from dpp.platform.db import exclusive
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp.runs.api.problems import PROBLEMS
from dpp.tickets import http as tickets_http
from dpp.tickets import store
from dpp.tickets.config import ReaperSettings
from dpp.tickets.model import REAPER
from dpp.workspaces.api import http as workspaces_http
from dpp_cli.docs import openapi
from dpp_cli.docs.openapi import run_examples, ticket_examples
from dpp_cli.docs.openapi.schemas import merged
from dpp_cli.paths import OPENAPI_DOCUMENT
from tests.http.state import work
from tests.support.api import Answer, ApiClient, a_body
from tests.support.operator_api import OperatorApi
from tests.support.world import Tenant, World

DOCUMENT: dict[str, Any] = json.loads(OPENAPI_DOCUMENT.read_text(encoding="utf-8"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
DOCS = OPENAPI_DOCUMENT.parent


def every_header_is_documented(_context: Any, response: Any, case: schemathesis.Case[Any]) -> None:
    """No undocumented header is sent; schemathesis checks that every documented one is."""
    answers = DOCUMENT["paths"][case.operation.path][case.operation.method.lower()]["responses"]
    answer = answers.get(str(response.status_code), {})  # another check finds unknown statuses
    documented = {name.lower() for name in answer.get("headers", {})}
    unnamed = set(response.headers) - documented - {"content-type"}
    assert not unnamed or not answer, f"{response.status_code} has {unnamed}"


CHECKS: list[Any] = [
    every_header_is_documented,
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
    schemathesis.checks.response_schema_conformance,
    schemathesis.checks.negative_data_rejection,
    schemathesis.checks.missing_required_header,
    schemathesis.checks.unsupported_method,
    schemathesis.checks.allow_header_conformance,
]


def validator(reference: str) -> jsonschema.Draft202012Validator:
    """A validator of a schema of the document, which also checks formats."""
    resource = Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:api", resource)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    schema = {"$ref": f"urn:api#{reference}"}
    return jsonschema.Draft202012Validator(schema, registry=registry, format_checker=checker)


def contents() -> Iterator[tuple[str, dict[str, Any]]]:
    """The place and the media type object of every body in the document."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            places = {"requestBody": operation.get("requestBody", {})}
            places |= {f"responses/{status}": found for status, found in operation["responses"].items()}
            for place, described in places.items():
                for media, content in described.get("content", {}).items():
                    names = (path, method, *place.split("/"), "content", media)
                    escaped = (name.replace("~", "~0").replace("/", "~1") for name in names)
                    yield "/paths/" + "/".join(escaped), content


def test_the_committed_document_is_the_generated_one() -> None:
    """Conventions: `python -m dpp_cli.docs.openapi` after a change of the contract."""
    assert OPENAPI_DOCUMENT.read_text(encoding="utf-8") == openapi.as_text()


def test_the_document_is_valid_openapi() -> None:
    """OpenAPI 3.1: a known loader accepts it, and every reference and schema is valid."""
    assert DOCUMENT["openapi"].startswith("3.1")
    SCHEMA.validate()
    text = json.dumps(DOCUMENT)
    for reference in set(re.findall(r'"(#/[^"]+)"', text)):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_example_fits_its_schema() -> None:
    seen = 0
    for place, content in contents():
        examples = [item["value"] for item in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for example in examples:
            validator(f"{place}/schema").validate(example)
            seen += 1
    assert seen > 100


def test_the_examples_of_a_submit_are_accepted(api: ApiClient, world: World) -> None:
    """RUN-2."""
    tenant = world.tenant()
    body = DOCUMENT["paths"]["/v1/runs"]["post"]["requestBody"]["content"]["application/json"]
    for name, example in body["examples"].items():
        assert api.submit(tenant, example["value"]).status == 202, name


def test_no_requirement_number_is_published() -> None:
    ours = (
        r"\b(RUN|DEC|PLAT|TIX|AUTH|WS|LIFE)-\d|\bD\d+\b|\b00[0134] §|§"
        r"|dpp\.(runs|packs|platform|tickets|auth_errors|workspaces|lifecycle)"
    )
    assert not re.search(ours, openapi.as_text())


def test_every_problem_is_documented() -> None:
    """RUN-9: each kind of the code is in the document and in docs/problems.md."""
    contexts = (tickets_http, auth_errors_http, workspaces_http, webhook_http)
    tables = (PROBLEMS, *(context.PROBLEMS for context in contexts))
    kinds = {kind.reason_code for table in tables for kind in table.values()}
    kinds |= {value.reason_code for value in vars(problem).values() if isinstance(value, ProblemKind)}
    examples = {name for _, content in contents() for name in content.get("examples", ())}
    of_the_gateway = DOCUMENT["components"]["responses"].values()
    examples |= {name for one in of_the_gateway for name in one["content"][problem.CONTENT_TYPE]["examples"]}
    # The problems of the MCP endpoint only (docs/mcp.md), which describes itself to its clients.
    assert kinds - {"REQUEST_REFUSED", "NOT_ACCEPTABLE"} <= examples
    page = (DOCS / "problems.md").read_text(encoding="utf-8")
    assert [kind for kind in sorted(kinds) if f"| {kind} |" not in page] == []


def test_bodies_of_every_state_fit_the_schema(api: ApiClient, world: World) -> None:
    """RUN-10: queued, completed, inline, failed; no member is null."""
    tenant = world.tenant()
    run_view = validator("/components/schemas/RunView")
    plain = api.submit(tenant, a_body()).body["run_id"]
    inline = api.submit(tenant, a_body(options={"inline": 1})).body["run_id"]
    queued = api.read(tenant, plain).body
    work(world)
    failed = api.submit(tenant, a_body()).body["run_id"]
    work(world, PackFailure(reason_code=PackReason.PACK_FAILED, detail="It broke."))
    bodies = [queued, *(api.read(tenant, run_id).body for run_id in (plain, inline, failed))]
    for body in bodies:
        run_view.validate(body)
        assert None not in body.values()
    brought = [sorted({"result", "problem"} & set(body)) for body in bodies]
    assert brought == [[], ["result"], ["result"], ["problem"]]


def send(case: schemathesis.Case[Any], api: ApiClient, tenant: Tenant) -> schemathesis.Response:
    """Send a generated case to the functions with a valid key of a tenant; other tests send invalid keys."""
    headers, path, body = sent_of(case)
    authorize(case, headers, tenant.token)
    if (
        headers.get("Idempotency-Key") == run_examples.KEY
    ):  # the generator's favourite value, and each payload needs its own key
        headers["Idempotency-Key"] = f"key-{uuid4()}"
    answer = api.call(case.method.upper(), path, headers=headers, body=body)
    return as_response(answer, case.method, path, headers)


def send_to_operators(case: schemathesis.Case[Any], operators: OperatorApi) -> schemathesis.Response:
    """Send a generated case with an operator's key."""
    headers, path, body = sent_of(case)
    authorize(case, headers, operators.token)
    query = {
        str(name): [str(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in (case.query or {}).items()
    }
    headers.setdefault("Authorization", "")  # otherwise the client sends its own
    answer = operators.call(case.method.upper(), path, headers=headers, query=query, body=body)
    return as_response(answer, case.method, path, headers)


def authorize(case: schemathesis.Case[Any], headers: dict[str, str], token: str) -> None:
    """Replace a generated key by a valid one; a case without a key stays without."""
    made_wrong = case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.NEGATIVE
    if "Authorization" in headers or not made_wrong:
        headers["Authorization"] = f"Bearer {token}"


def sent_of(case: schemathesis.Case[Any]) -> tuple[dict[str, str], str, bytes | None]:
    """The headers, path and body of a case as they are sent."""
    headers = {str(name): str(value) for name, value in (case.headers or {}).items()}
    body = None
    if isinstance(case.body, bytes):
        body = case.body
    elif case.media_type is not None and not isinstance(case.body, NotSet):  # a body is optional
        body = json.dumps(case.body).encode()
        headers.setdefault("Content-Type", case.media_type)
    return headers, unquote(case.formatted_path, errors="replace"), body


def as_response(answer: Answer, method: str, path: str, headers: dict[str, str]) -> schemathesis.Response:
    request = requests.Request(method, "http://localhost/").prepare()
    request.headers.update(headers)
    sent = {name.lower(): [value] for name, value in answer.headers.items()}
    return schemathesis.Response(
        status_code=answer.status,
        headers=sent,
        content=answer.text.encode("utf-8"),
        request=request,
        elapsed=timedelta(0).total_seconds(),
        verify=False,
    )


BOUNDED = settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


OF_TENANTS = SCHEMA.exclude(path_regex="^/(api|v1/workspaces|v1/webhooks)")
OF_OPERATORS = SCHEMA.include(path_regex="^/api/(?!auth-errors)")


@OF_TENANTS.parametrize()
@BOUNDED
def test_responses_conform_to_the_document(case: schemathesis.Case[Any], api: ApiClient, world: World) -> None:
    """RUN-9, RUN-10: any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    case.validate_response(send(case, api, _tenant_of(world)), checks=CHECKS)


@OF_OPERATORS.parametrize()
@BOUNDED
def test_responses_to_operators_conform_to_the_document(case: schemathesis.Case[Any], operators: OperatorApi) -> None:
    """TIX-5, TIX-6: any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    case.validate_response(send_to_operators(case, operators), checks=CHECKS)


def test_a_ticket_that_the_document_allows_is_accepted(operators: OperatorApi) -> None:
    """TIX-1: generated from the document only."""
    seen = Counter[int]()
    strategy = SCHEMA["/api/tickets"]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @BOUNDED
    @given(case=strategy)
    def file(case: schemathesis.Case[Any]) -> None:
        response = send_to_operators(case, operators)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        if response.status_code == 400:  # a rule that only the description can state
            assert "\\u0000" in json.dumps(case.body), response.text
        else:  # 409: the same id for another request
            assert response.status_code in {200, 201, 409}, response.text

    file()
    assert seen[201] >= 5


def test_a_submit_that_the_document_allows_is_accepted(api: ApiClient, world: World) -> None:
    """RUN-3: generated from the document only; the rules between fields below are the exception."""
    tenant, seen = _tenant_of(world), Counter[int]()
    strategy = SCHEMA["/v1/runs"]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=50)  # many of them contain a NUL
    @given(case=strategy)
    def submit(case: schemathesis.Case[Any]) -> None:
        response = send(case, api, tenant)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        if response.status_code == 400:  # a rule that only the description can state
            assert "\\u0000" in json.dumps(case.body) or "beyond 2^53" in response.text
        elif response.status_code == 422:  # a rule between members; its fault names the object
            for fault in json.loads(response.content)["errors"]:
                assert isinstance(_at(fault["pointer"], case.body), dict), response.text
        else:
            assert response.status_code in {202, 402, 409}, response.text

    submit()
    assert seen[202] >= 5
    assert world.position(tenant).balanced


def _at(pointer: str, value: Any) -> Any:
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else part]
    return value


_tenants: dict[str, Tenant] = {}


def _tenant_of(world: World) -> Tenant:
    """One tenant per world, because hypothesis runs a test many times with one fixture."""
    if world.bucket not in _tenants:
        _tenants[world.bucket] = world.tenant(credit_usd_micros=2**53 - 1)
    return _tenants[world.bucket]


@pytest.fixture
def operators(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorApi]:
    """The operators' API of a world with the document's example ticket, after a run of the reaper."""
    client = OperatorApi.of_world(world, monkeypatch)
    client.send("POST", "/api/tickets", ticket_examples.REQUESTS["execution-enable"])
    client.send("POST", "/api/tickets/reaper/run")
    try:
        yield client
    finally:
        client.close()


OWN_PATHS = {
    "tickets_api": "/api/(?!auth-errors)",
    "auth_errors_api": "/api/auth-errors",
    "workspaces_api": "/v1/workspaces",
    "lifecycle_webhook": "/v1/webhooks",
    "health": "/(healthz|readyz)$",
    "api_docs": "/(openapi.json|docs)$",
}


@pytest.mark.parametrize("name", OWN_PATHS)
def test_the_documented_operations_are_the_routes(name: str) -> None:
    """For the functions that name their paths."""
    routed = {
        (method, re.sub(r"<(\w+)>", r"{\1}", path))
        for path, methods in import_module(f"{name}.handler").api._methods.items()
        for method in methods
        if path.startswith("/")
    }
    of_its_own = re.compile(OWN_PATHS[name])
    documented = {
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
        if of_its_own.match(path)
    }
    assert routed == documented
    assert routed


def test_the_document_distinguishes_keys_of_tenants_and_operators() -> None:
    """TIX-5, AUTH-1, LIFE-7: paths under /api are for operators, except reports of authentication errors."""
    assert set(DOCUMENT["components"]["securitySchemes"]) == {"apiKey", "operatorKey"}
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            of_operators = path.startswith("/api/") and (method, path) != ("post", "/api/auth-errors")
            expected: list[dict[str, list[str]]] = [{"operatorKey" if of_operators else "apiKey": []}]
            expected = [] if re.match("/(healthz|readyz|openapi.json$|docs$|v1/webhooks/)", path) else expected
            assert operation.get("security", DOCUMENT["security"]) == expected, path


OF_TICKETS = re.compile(OWN_PATHS["tickets_api"])


def test_the_examples_of_operators_are_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIX-1, TIX-5, TIX-6."""
    client, sent = OperatorApi.of_world(world, monkeypatch), Counter[int]()
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if OF_TICKETS.match(path) and "requestBody" in operation:
                for name, example in operation["requestBody"]["content"]["application/json"]["examples"].items():
                    answer = client.send(method.upper(), path, example["value"])
                    assert answer.status in {200, 201}, (name, answer.text)
                    sent[answer.status] += 1
    assert sent == {201: 4, 200: 6}
    client.close()


def test_bodies_of_every_ticket_and_error_fit_the_schema(operators: OperatorApi, world: World) -> None:
    """TIX-2, TIX-5, TIX-6: open, in progress, reaped; a cycle under way, an emergency stop; with their members."""
    [ticket] = operators.send("GET", "/api/tickets").body["tickets"]
    path = f"/api/tickets/{ticket['request_id']}"
    bodies = [operators.send("GET", path).body]
    then = world.now() + timedelta(days=2)
    with world.database.connection() as connection:
        store.take_open(connection, "OPS_CYCLE/x", world.now())
        bodies.append(operators.send("GET", path).body)
        store.reap(connection, ReaperSettings.load({}).rules, then)
    bodies.append(operators.send("GET", path).body)
    for body in bodies:
        validator("/components/schemas/WholeTicketView").validate(body)
    assert [("result" in body, body["current_status"]) for body in bodies] == [
        (False, "OPEN"),
        (False, "IN_PROGRESS"),
        (True, "FAILED"),
    ]
    with exclusive.held(world.new_database(), REAPER, "lee", ttl_seconds=60):
        running = operators.send("POST", "/api/tickets/reaper/run")
    operators.send("PUT", "/api/ops/emergency-stop", {"stopped": True, "reason": "a fire"})
    stopped = operators.send("POST", "/api/tickets/reaper/run")
    operation = SCHEMA["/api/tickets/reaper/run"]["POST"]
    for answer in (running, stopped):
        operation.Case().validate_response(as_response(answer, "POST", "/", {}), checks=CHECKS)
    assert (running.headers["Retry-After"], running.body["actor"]) == ("10", "lee")
    assert datetime.fromisoformat(running.body["started_at"]).utcoffset() is not None
    assert (stopped.body["reason_code"], stopped.body["actor"]) == ("EMERGENCY_STOP_SET", "kim")


def test_two_schemas_of_one_name_are_refused() -> None:
    """One would be documented as the other."""
    text = {"type": "string"}
    assert merged({"A": text}, {"A": text, "B": {}}) == {"A": text, "B": {}}
    with pytest.raises(ValueError, match="called A"):
        merged({"A": text}, {"A": {"type": "integer"}})


def test_the_conformance_test_can_fail(api: ApiClient, world: World) -> None:
    """The checks find a status, a type, a header or a member that is not in the document."""
    operation = SCHEMA["/v1/runs/{run_id}"]["GET"]
    case = operation.Case(path_parameters={"run_id": str(uuid4())})
    tenant = world.tenant()
    good = api.read(tenant, api.submit(tenant, a_body()).body["run_id"])
    lies = (
        Answer(418, good.headers, good.text),
        Answer(good.status, good.headers | {"Content-Type": "text/plain"}, good.text),
        Answer(good.status, {"Content-Type": "application/json"}, good.text),
        Answer(good.status, good.headers, json.dumps(good.body | {"cost": {}})),
    )
    case.validate_response(as_response(good, "GET", "/", {}), checks=CHECKS)
    for lie in lies:
        with pytest.raises(FailureGroup):
            case.validate_response(as_response(lie, "GET", "/", {}), checks=CHECKS)
