"""The OpenAPI document is committed as generated, valid, and complete: descriptions, examples and every error."""

import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import jsonschema
import pytest

from dpp.auth_errors.api.http import PROBLEMS as OF_AUTH_ERRORS
from dpp.lifecycle.flow.intake.webhook_http import PROBLEMS as OF_WEBHOOKS
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp.runs.api.problems import PROBLEMS as OF_RUNS
from dpp.tickets.http import PROBLEMS as OF_TICKETS
from dpp.workspaces.api.http import PROBLEMS as OF_WORKSPACES
from dpp_cli.docs import openapi
from dpp_cli.docs.openapi.schemas import merged
from dpp_cli.paths import OPENAPI_DOCUMENT
from tests.http.openapi.conformance import DOCUMENT, OPERATIONS, schema, validator

DOCS = OPENAPI_DOCUMENT.parent
FAMILIES: Mapping[str, Mapping[type[Exception], ProblemKind]] = {
    "Runs": OF_RUNS,
    "Workspaces": OF_WORKSPACES,
    "Webhooks": OF_WEBHOOKS,
    "Tickets": OF_TICKETS,
    "Operations": OF_TICKETS,
    "Authentication errors": OF_AUTH_ERRORS,
}
OF_EVERY_FUNCTION = {"X-Trace-Id", "Cache-Control", "X-Content-Type-Options"}
_HEADER_OF: Mapping[int, str] = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}
GENERAL = [kind for kind in vars(problem).values() if isinstance(kind, ProblemKind)]
each_operation = pytest.mark.parametrize(
    ("method", "path", "operation"), [pytest.param(*one, id=f"{one[0]} {one[1]}") for one in OPERATIONS]
)


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
    schema().validate()
    text = json.dumps(DOCUMENT)
    for reference in set(re.findall(r'"(#/[^"]+)"', text)):
        found: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            found = found[part.replace("~1", "/").replace("~0", "~")]
    for one in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(one)


def test_every_example_fits_its_schema() -> None:
    seen = 0
    for place, content in contents():
        examples = [item["value"] for item in content.get("examples", {}).values()]
        examples += [content["example"]] if "example" in content else []
        for example in examples:
            validator(f"{place}/schema").validate(example)
            seen += 1
    assert seen > 100


def test_no_requirement_number_is_published() -> None:
    ours = (
        r"\b(RUN|DEC|PLAT|TIX|AUTH|WS|LIFE)-\d|\bD\d+\b|\b00[0134] §|§"
        r"|dpp\.(runs|packs|platform|tickets|auth_errors|workspaces|lifecycle)"
    )
    assert not re.search(ours, openapi.as_text())


def test_every_problem_is_documented() -> None:
    """RUN-9: each kind of the code is in the document and in docs/problems.md."""
    kinds = {kind.reason_code for table in FAMILIES.values() for kind in table.values()}
    kinds |= {kind.reason_code for kind in GENERAL}
    examples = {name for _, content in contents() for name in content.get("examples", ())}
    of_the_gateway = DOCUMENT["components"]["responses"].values()
    examples |= {name for one in of_the_gateway for name in one["content"][problem.CONTENT_TYPE]["examples"]}
    # The problems of the MCP endpoint only (docs/mcp.md), which describes itself to its clients.
    assert kinds - {"REQUEST_REFUSED", "NOT_ACCEPTABLE"} <= examples
    page = (DOCS / "problems.md").read_text(encoding="utf-8")
    assert [kind for kind in sorted(kinds) if f"| {kind} |" not in page] == []


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


def test_two_schemas_of_one_name_are_refused() -> None:
    """One would be documented as the other."""
    text = {"type": "string"}
    assert merged({"A": text}, {"A": text, "B": {}}) == {"A": text, "B": {}}
    with pytest.raises(ValueError, match="called A"):
        merged({"A": text}, {"A": {"type": "integer"}})


def _kinds(operation: Mapping[str, Any]) -> set[tuple[int, str]]:
    """The errors that an operation documents."""
    return {
        (int(status), reason_code)
        for status, answer in operation["responses"].items()
        for reason_code in answer.get("content", {}).get(problem.CONTENT_TYPE, {}).get("examples", ())
    }


@each_operation
def test_an_operation_is_described(method: str, path: str, operation: dict[str, Any]) -> None:
    """It has an id, a summary, a description, a known tag, its security, and a description of each parameter."""
    assert operation["operationId"]
    assert operation["summary"]
    assert operation["description"].endswith(".")
    assert set(operation["tags"]) <= {one["name"] for one in DOCUMENT["tags"]}
    schemes = DOCUMENT["components"]["securitySchemes"]
    assert all(set(choice) <= set(schemes) for choice in operation.get("security", DOCUMENT["security"]))
    for parameter in operation["parameters"]:
        assert parameter["description"], parameter["name"]
    assert "X-Trace-Id" in {parameter["name"] for parameter in operation["parameters"]}
    in_path = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
    assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}


@each_operation
def test_every_body_has_an_example(method: str, path: str, operation: dict[str, Any]) -> None:
    """Only responses to a HEAD and 304 have no body."""
    bodies = dict(operation["responses"])
    if "requestBody" in operation:
        bodies["body"] = operation["requestBody"]
    for name, body in bodies.items():
        assert body["description"], name
        if not body.get("content"):
            assert name == "304" or (method, name) == ("HEAD", "200")
        for content in body.get("content", {}).values():
            assert "example" in content or content["examples"], name


@each_operation
def test_every_response_has_its_headers(method: str, path: str, operation: dict[str, Any]) -> None:
    """Those of every function, those of its status, and the cost headers of runs (RUN-13)."""
    components = DOCUMENT["components"]["headers"]
    for status, answer in operation["responses"].items():
        assert set(answer["headers"]) >= OF_EVERY_FUNCTION, status
        is_problem = problem.CONTENT_TYPE in answer.get("content", {})
        if is_problem and (wanted := _HEADER_OF.get(int(status))):
            assert wanted in answer["headers"]
        if "Runs" in operation["tags"]:
            assert "X-DPP-Budget-Remaining" in answer["headers"]
        for name, header in answer["headers"].items():
            component = header["$ref"].rpartition("/")[2]
            assert component in components
            assert component.removesuffix(".maybe") in {name, "SnapshotLocation"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_problem_of_a_context_is_documented_by_its_operations(family: str) -> None:
    """All of its table of problems, and none of another context."""
    operations = [op for _, _, op in OPERATIONS if family in op["tags"]]
    documented = {kind for op in operations for kind in _kinds(op)}
    own = {(kind.status, kind.reason_code) for kind in FAMILIES[family].values()}
    assert documented <= own | {(kind.status, kind.reason_code) for kind in GENERAL}
    shared = [name for name, table in FAMILIES.items() if table is FAMILIES[family]]
    together = {kind for _, _, op in OPERATIONS if set(op["tags"]) & set(shared) for kind in _kinds(op)}
    assert own <= together


@each_operation
def test_every_operation_has_the_common_errors(method: str, path: str, operation: dict[str, Any]) -> None:
    """RUN-9: 405 and 500; with a key 401; with a body its errors."""
    wanted = {problem.METHOD_NOT_ALLOWED, problem.INTERNAL_ERROR}
    if operation.get("security", DOCUMENT["security"]):
        wanted |= {problem.AUTH_INVALID, problem.DEPENDENCY_UNAVAILABLE, problem.MALFORMED_REQUEST}
        if "requestBody" in operation:
            wanted |= {problem.PAYLOAD_TOO_LARGE, problem.UNSUPPORTED_MEDIA_TYPE, problem.VALIDATION_FAILED}
    assert {(kind.status, kind.reason_code) for kind in wanted} <= _kinds(operation)


def _examples() -> Iterator[tuple[str, Any]]:
    for _, path, operation in OPERATIONS:
        for answer in operation["responses"].values():
            for one in answer.get("content", {}).get(problem.CONTENT_TYPE, {}).get("examples", {}).values():
                yield path, one["value"]


def test_an_example_of_a_problem_has_the_path_of_its_operation() -> None:
    for path, example in _examples():
        parts = path.split("/")
        asked = example["instance"].split("/")
        assert len(parts) == len(asked), path
        assert all(part.startswith("{") or part == given for part, given in zip(parts, asked, strict=True)), path


def test_names_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))
