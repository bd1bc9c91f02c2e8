"""The OpenAPI document: committed as the code makes it, valid, and true of what the functions answer."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
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
from schemathesis.core.failures import FailureGroup

from dpp.packs.contract import PackFailure, PackReason
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp.runs.http import PROBLEMS
from dpp_cli import openapi, openapi_examples
from tests.api import Answer, ApiClient, a_body
from tests.http.state import work
from tests.world import Tenant, World

DOCUMENT: dict[str, Any] = json.loads(openapi.DOCUMENT.read_text(encoding="utf-8"))
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
DOCS = openapi.DOCUMENT.parent
RULE_BETWEEN_FIELDS = re.compile("contradict each other|must be distinct|is an option of")
CHECKS: list[Any] = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_headers_conformance,
    schemathesis.checks.response_schema_conformance,
]


def validator(reference: str) -> jsonschema.Draft202012Validator:
    """A validator of one of the document's schemas, formats checked."""
    resource = Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:api", resource)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    schema = {"$ref": f"urn:api#{reference}"}
    return jsonschema.Draft202012Validator(schema, registry=registry, format_checker=checker)


def contents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every body that the document describes: where, and its media type object."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            places = {"requestBody": operation.get("requestBody", {})}
            places |= {f"responses/{status}": found for status, found in operation["responses"].items()}
            for place, described in places.items():
                for media, content in described.get("content", {}).items():
                    names = (path, method, *place.split("/"), "content", media)
                    escaped = (name.replace("~", "~0").replace("/", "~1") for name in names)
                    yield "/paths/" + "/".join(escaped), content


def test_the_committed_document_is_what_the_code_makes() -> None:
    """Conventions: `python -m dpp_cli.openapi` after a change of the contract."""
    assert openapi.DOCUMENT.read_text(encoding="utf-8") == openapi.as_text()


def test_the_document_is_valid_openapi() -> None:
    """OpenAPI 3.1: a known loader takes it, every reference leads somewhere, every schema is one."""
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
    """An example that can't be sent, or is never answered, misleads."""
    seen = 0
    for place, content in contents():
        examples = [item["value"] for item in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for example in examples:
            validator(f"{place}/schema").validate(example)
            seen += 1
    assert seen > 25


def test_the_examples_of_a_submit_are_accepted(api: ApiClient, world: World) -> None:
    """RUN-2: what the document shows can be pasted."""
    tenant = world.tenant()
    body = DOCUMENT["paths"]["/v1/runs"]["post"]["requestBody"]["content"]["application/json"]
    for name, example in body["examples"].items():
        assert api.submit(tenant, example["value"]).status == 202, name


def test_nothing_of_our_own_paperwork_is_published() -> None:
    """A reader of the document knows no requirement numbers."""
    assert not re.search(r"\b(RUN|DEC|PLAT)-\d|\bD\d+\b|dpp\.(runs|packs|platform)", openapi.as_text())


def test_every_problem_is_documented() -> None:
    """RUN-9: each kind that the code knows stands in the document and in docs/problems.md."""
    kinds = {kind.reason_code for kind in PROBLEMS.values()}
    kinds |= {value.reason_code for value in vars(problem).values() if isinstance(value, ProblemKind)}
    examples = {name for _, content in contents() for name in content.get("examples", ())}
    assert kinds <= examples
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
    assert [sorted({"result", "problem"} & set(body)) for body in bodies] == [
        [],
        ["result"],
        ["result"],
        ["problem"],
    ]


def send(case: schemathesis.Case[Any], api: ApiClient, tenant: Tenant) -> schemathesis.Response:
    """Carry a generated case into the functions with a good key; what a bad one gets is shown elsewhere."""
    headers = {str(name): str(value) for name, value in (case.headers or {}).items()}
    headers["Authorization"] = f"Bearer {tenant.token}"
    if (
        headers.get("Idempotency-Key") == openapi_examples.KEY
    ):  # the generator's favourite, and each payload needs its own
        headers["Idempotency-Key"] = f"key-{uuid4()}"
    body = None
    if isinstance(case.body, bytes):
        body = case.body
    elif case.media_type is not None:
        body = json.dumps(case.body).encode()
        headers.setdefault("Content-Type", case.media_type)
    path = unquote(case.formatted_path, errors="replace")
    answer = api.call(case.method.upper(), path, tenant, headers=headers, body=body)
    return _as_response(answer, case.method, path, headers)


def _as_response(answer: Answer, method: str, path: str, headers: dict[str, str]) -> schemathesis.Response:
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


@SCHEMA.parametrize()
@BOUNDED
def test_answers_conform_to_the_document(case: schemathesis.Case[Any], api: ApiClient, world: World) -> None:
    """RUN-9, RUN-10: whatever is sent, fit or not: a documented status, type, headers and schema, and no 5xx."""
    case.validate_response(send(case, api, _tenant_of(world)), checks=CHECKS)


def test_what_the_document_allows_is_accepted(api: ApiClient, world: World) -> None:
    """RUN-3: generated from the document alone, a body is taken, but for the rules between fields below."""
    tenant, seen = _tenant_of(world), Counter[int]()
    strategy = SCHEMA["/v1/runs"]["POST"].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @BOUNDED
    @given(case=strategy)
    def submit(case: schemathesis.Case[Any]) -> None:
        response = send(case, api, tenant)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        if response.status_code == 400:  # what no schema can say, so the description does
            assert "\\u0000" in json.dumps(case.body) or "beyond 2^53" in response.text
        elif response.status_code == 422:  # nor a rule between members, whose fault is the object's
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
    """One tenant a world: hypothesis runs the body of a test many times over one fixture."""
    if world.bucket not in _tenants:
        _tenants[world.bucket] = world.tenant(credit_usd_micros=2**53 - 1)
    return _tenants[world.bucket]


def test_the_conformance_test_can_fail(api: ApiClient, world: World) -> None:
    """The checks see a status, a type, a header or a member that the document doesn't know."""
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
    case.validate_response(_as_response(good, "GET", "/", {}), checks=CHECKS)
    for lie in lies:
        with pytest.raises(FailureGroup):
            case.validate_response(_as_response(lie, "GET", "/", {}), checks=CHECKS)
