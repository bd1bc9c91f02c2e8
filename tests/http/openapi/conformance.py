"""Checks of responses against the OpenAPI document, and requests that are generated from it.

schemathesis is imported at the first use: it takes seconds, and most test processes never need it.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID, uuid4

import jsonschema
import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from dpp_cli.docs.openapi.examples import RUNS, WORKSPACES
from dpp_cli.paths import OPENAPI_DOCUMENT
from tests.support.api import Answer

if TYPE_CHECKING:
    import schemathesis
    from schemathesis import Case, Response

DOCUMENT: dict[str, Any] = json.loads(OPENAPI_DOCUMENT.read_text(encoding="utf-8"))
OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
BOUNDED = settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)


@dataclass(frozen=True, slots=True)
class Api:
    """The functions behind some operations: how they are called, and the key that an operation (method, path) needs."""

    call: Callable[..., Answer]
    token_for: Callable[[str, str], str]
    is_balanced: Callable[[], bool] = lambda: True


type Send = Callable[["Case[Any]"], "Response"]


@cache
def schema(_copy: frozenset[str] = frozenset()) -> "schemathesis.schemas.BaseSchema":
    """The document for schemathesis, which sends a path's unsupported methods only once for each copy."""
    import schemathesis

    return schemathesis.openapi.from_dict(DOCUMENT)


def every_header_is_documented(_context: Any, response: Any, case: "Case[Any]") -> None:
    """No undocumented header is sent; schemathesis checks that every documented one is."""
    answers = DOCUMENT["paths"][case.operation.path][case.operation.method.lower()]["responses"]
    answer = answers.get(str(response.status_code), {})  # another check finds unknown statuses
    documented = {name.lower() for name in answer.get("headers", {})}
    unnamed = set(response.headers) - documented - {"content-type"}
    assert not unnamed or not answer, f"{response.status_code} has {unnamed}"


def checks(without: frozenset[str] = frozenset()) -> list[Any]:
    """The checks of a response; `without` names those of schemathesis that are left out."""
    from schemathesis import checks as known

    names = (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "missing_required_header",
        "unsupported_method",
        "allow_header_conformance",
    )
    return [every_header_is_documented, *(getattr(known, name) for name in names if name not in without)]


def validator(reference: str) -> jsonschema.Draft202012Validator:
    """A validator of a schema of the document, which also checks formats."""
    resource = Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:api", resource)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    return jsonschema.Draft202012Validator({"$ref": f"urn:api#{reference}"}, registry=registry, format_checker=checker)


def bodies_below(root: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The method, path and examples of each operation with a body whose path matches."""
    for method, path, operation in OPERATIONS:
        if re.match(root, path) and "requestBody" in operation:
            shown = operation["requestBody"]["content"]["application/json"]["examples"]
            yield method, path, {name: example["value"] for name, example in shown.items()}


def request_of(case: "Case[Any]") -> tuple[dict[str, str], dict[str, list[str]], bytes | None]:
    """The headers, query and body of a case as they are sent; each body gets its own idempotency key."""
    from schemathesis.core import NotSet

    headers = {str(name): str(value) for name, value in (case.headers or {}).items()}
    if headers.get("Idempotency-Key") in {RUNS["key"], WORKSPACES["key"]}:  # the generator's favourites
        headers["Idempotency-Key"] = f"key-{uuid4()}"
    query = {
        str(name): [str(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in (case.query or {}).items()
    }
    if isinstance(case.body, bytes):
        return headers, query, case.body
    if case.media_type is None or isinstance(case.body, NotSet):  # a body is optional
        return headers, query, None
    headers.setdefault("Content-Type", case.media_type)
    return headers, query, json.dumps(case.body).encode()


def as_response(answer: Answer, method: str, headers: dict[str, str]) -> "Response":
    import schemathesis

    request = requests.Request(method, "http://localhost/").prepare()
    request.headers.update(headers)
    sent = {name.lower(): [value] for name, value in answer.headers.items()}
    content = answer.text.encode("utf-8")
    return schemathesis.Response(answer.status, sent, content, request=request, elapsed=0.0, verify=False)


def sender(api: Api) -> Send:
    """Sends generated cases with a valid key; a case that was made without a key stays without."""

    def send(case: "Case[Any]") -> "Response":
        import schemathesis

        headers, query, body = request_of(case)
        made_wrong = case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.NEGATIVE
        if "Authorization" in headers or not made_wrong:
            headers["Authorization"] = f"Bearer {api.token_for(case.method.upper(), case.path)}"
        path = unquote(case.formatted_path, errors="replace")
        answer = api.call(case.method.upper(), path, headers=headers, query=query, body=body)
        return as_response(answer, case.method, headers)

    return send


def check_generated_requests(
    method: str,
    path: str,
    send: Send,
    judge: Callable[["Response"], None] | None = None,
    without: frozenset[str] = frozenset(),
) -> None:
    """Send the document's examples, the edges of each parameter and 25 random requests, valid or not."""
    from schemathesis.generation.hypothesis.builder import HypothesisTestConfig, HypothesisTestMode, create_test

    @BOUNDED
    def conforms(case: "Case[Any]") -> None:
        response = send(case)
        case.validate_response(response, checks=checks(without))
        if judge is not None:
            judge(response)

    document = schema(without)
    config = HypothesisTestConfig(project=document.config, modes=list(HypothesisTestMode))
    create_test(operation=document[path][method], test_func=conforms, config=config)()


def statuses_of_valid_requests(
    method: str, path: str, send: Send, judge: Callable[[Any, int, str], None], count: int = 50
) -> Counter[int]:
    """Send requests that the document allows; `judge` gets each body, status and response."""
    import schemathesis

    seen = Counter[int]()
    strategy = schema()[path][method].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=count)
    @given(case=strategy)
    def accepted(case: "Case[Any]") -> None:
        if "workspace_id" in case.path_parameters:
            case.path_parameters = {"workspace_id": WORKSPACES["workspace_id"]}
        response = send(case)
        case.validate_response(response, checks=checks())
        seen[response.status_code] += 1
        judge(case.body, response.status_code, response.text)

    accepted()
    return seen


def assert_conforms(method: str, path: str, answer: Answer, without: frozenset[str] = frozenset()) -> None:
    """The document has this response of an operation."""
    parameters = dict.fromkeys(re.findall(r"{(\w+)}", path), str(UUID(int=0)))
    case = schema()[path][method].Case(path_parameters=parameters)
    case.validate_response(as_response(answer, method, {}), checks=checks(without))


def assert_lies_are_found(method: str, path: str, good: Answer, *lies: Answer) -> None:
    """The checks accept the response, and find a status, a header or a member that is not in the document."""
    from schemathesis.core.failures import FailureGroup

    assert_conforms(method, path, good)
    for lie in (Answer(418, good.headers, good.text), *lies):
        with pytest.raises(FailureGroup):
            assert_conforms(method, path, lie)
