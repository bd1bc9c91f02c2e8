"""The OpenAPI document is complete: it has every description, an example of every body, and every error."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dpp.auth_errors.api.http import PROBLEMS as OF_AUTH_ERRORS
from dpp.lifecycle.flow.intake.webhook_http import PROBLEMS as OF_WEBHOOKS
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemKind
from dpp.runs.api.problems import PROBLEMS as OF_RUNS
from dpp.tickets.http import PROBLEMS as OF_TICKETS
from dpp.workspaces.api.http import PROBLEMS as OF_WORKSPACES
from dpp_cli.paths import OPENAPI_DOCUMENT

DOCUMENT: dict[str, Any] = json.loads(OPENAPI_DOCUMENT.read_text(encoding="utf-8"))
LISTED: list[tuple[str, str, dict[str, Any]]] = [
    (method, path, operation) for path, methods in DOCUMENT["paths"].items() for method, operation in methods.items()
]
OPERATIONS = [pytest.param(*one, id=f"{one[0].upper()} {one[1]}") for one in LISTED]
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


def _kinds(operation: Mapping[str, Any]) -> set[tuple[int, str]]:
    """The errors that an operation documents."""
    return {
        (int(status), reason_code)
        for status, answer in operation["responses"].items()
        for reason_code in answer.get("content", {}).get(problem.CONTENT_TYPE, {}).get("examples", ())
    }


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
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


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_body_has_an_example(method: str, path: str, operation: dict[str, Any]) -> None:
    """Only responses to a HEAD and 304 have no body."""
    bodies = dict(operation["responses"])
    if "requestBody" in operation:
        bodies["body"] = operation["requestBody"]
    for name, body in bodies.items():
        assert body["description"], name
        if not body.get("content"):
            assert name == "304" or (method, name) == ("head", "200")
        for content in body.get("content", {}).values():
            assert "example" in content or content["examples"], name


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
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
    operations = [op for _, _, op in LISTED if family in op["tags"]]
    documented = {kind for op in operations for kind in _kinds(op)}
    own = {(kind.status, kind.reason_code) for kind in FAMILIES[family].values()}
    general = {(value.status, value.reason_code) for value in vars(problem).values() if isinstance(value, ProblemKind)}
    assert documented <= own | general
    shared = [name for name, table in FAMILIES.items() if table is FAMILIES[family]]
    together = {kind for _, _, op in LISTED if set(op["tags"]) & set(shared) for kind in _kinds(op)}
    assert own <= together


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_operation_has_the_common_errors(method: str, path: str, operation: dict[str, Any]) -> None:
    """RUN-9: 405 and 500; with a key 401; with a body its errors."""
    wanted = {problem.METHOD_NOT_ALLOWED, problem.INTERNAL_ERROR}
    if operation.get("security", DOCUMENT["security"]):
        wanted |= {problem.AUTH_INVALID, problem.DEPENDENCY_UNAVAILABLE, problem.MALFORMED_REQUEST}
        if "requestBody" in operation:
            wanted |= {problem.PAYLOAD_TOO_LARGE, problem.UNSUPPORTED_MEDIA_TYPE, problem.VALIDATION_FAILED}
    assert {(kind.status, kind.reason_code) for kind in wanted} <= _kinds(operation)


def _examples() -> Iterator[tuple[str, Any]]:
    for _, path, operation in LISTED:
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
    names = [operation["operationId"] for _, _, operation in LISTED]
    assert len(names) == len(set(names))
