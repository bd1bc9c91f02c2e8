"""Requests that are generated from the OpenAPI document get the responses that it documents."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from dpp_cli.docs.openapi.examples import AUTH_ERRORS, WORKSPACES
from tests.auth_errors.api import AuthErrorsApi
from tests.http.openapi import conformance
from tests.http.openapi.conformance import OPERATIONS, Api, sender
from tests.support.api import Answer, ApiClient, a_body
from tests.support.world import World
from tests.workspaces.api.client import WorkspacesApi

FIXTURES = {
    "/api/auth-errors": "errors_api",
    "/v1/workspaces": "workspaces_api",
    "/api/": "operators_api",
    "/": "tenants_api",
}
# Deliveries are signed: test_webhooks.py sends them.
SENT = [one[:2] for one in OPERATIONS if not one[1].startswith("/v1/webhooks")]


@pytest.fixture
def api_of(request: pytest.FixtureRequest, path: str) -> Api:
    """The functions behind the path of a test."""
    found: Api = request.getfixturevalue(next(name for root, name in FIXTURES.items() if path.startswith(root)))
    return found


@pytest.mark.parametrize(("method", "path"), SENT)
def test_responses_conform_to_the_document(method: str, path: str, api_of: Api) -> None:
    """RUN-9, RUN-10, TIX-5, TIX-6: every request gets a documented status, type, headers and schema, and no 5xx."""
    conformance.check_generated_requests(method, path, sender(api_of))


type Excuse = Callable[[Any, str], bool]


def _nul(body: Any, _: str) -> bool:
    return "\\u0000" in json.dumps(body)


def _nul_or_large_number(body: Any, text: str) -> bool:
    return _nul(body, text) or "beyond 2^53" in text


def _rule_between_members(body: Any, text: str) -> bool:
    """The fault names the object."""
    return all(isinstance(_at(fault["pointer"], body), dict) for fault in json.loads(text)["errors"])


def _at(pointer: str, value: Any) -> Any:
    for part in pointer.split("/")[1:]:
        value = value[int(part) if isinstance(value, list) else part]
    return value


def _time_out_of_range(body: Any, text: str) -> bool:
    occurred_at = datetime.fromisoformat(body["occurredAt"])
    in_range = datetime(2000, 1, 1, tzinfo=UTC) <= occurred_at < datetime(2100, 1, 1, tzinfo=UTC)
    return "must be a time in the years 2000 to 2099" in text and not in_range


# The operation, how many requests are sent, the status of a good one, other statuses (409: the key or id of another
# request), and refusals by rules that only the description can state.
ACCEPTED: list[tuple[str, str, int, int, set[int], Mapping[int, Excuse]]] = [
    ("POST", "/v1/runs", 50, 202, {402, 409}, {400: _nul_or_large_number, 422: _rule_between_members}),
    ("POST", "/api/tickets", 25, 201, {200, 409}, {400: _nul}),
    ("POST", "/api/auth-errors", 50, 201, {200, 409}, {400: _nul, 422: _time_out_of_range}),
    ("POST", "/v1/workspaces", 50, 201, {200, 409}, {}),
    ("PATCH", "/v1/workspaces/{workspace_id}", 50, 200, {201, 409}, {}),
]


@pytest.mark.parametrize(("method", "path", "count", "good", "others", "excuses"), ACCEPTED)
def test_a_body_that_the_document_allows_is_accepted(
    *, method: str, path: str, count: int, good: int, others: set[int], excuses: Mapping[int, Excuse], api_of: Api
) -> None:
    """RUN-3, TIX-1, AUTH-1: generated from the document only."""

    def judge(body: Any, status: int, text: str) -> None:
        excused = excuses.get(status)
        assert excused(body, text) if excused else status in {good, *others}, text

    assert conformance.statuses_of_valid_requests(method, path, sender(api_of), judge, count)[good] >= 5
    assert api_of.is_balanced()


def test_a_false_run_is_found(api: ApiClient, world: World) -> None:
    tenant = world.tenant()
    good = api.read(tenant, api.submit(tenant, a_body()).body["run_id"])
    conformance.assert_lies_are_found(
        "GET",
        "/v1/runs/{run_id}",
        good,
        Answer(good.status, good.headers | {"Content-Type": "text/plain"}, good.text),
        Answer(good.status, {"Content-Type": "application/json"}, good.text),
        Answer(good.status, good.headers, json.dumps(good.body | {"cost": {}})),
    )


def test_a_false_authentication_error_is_found(errors: AuthErrorsApi) -> None:
    good = errors.ask(f"/{AUTH_ERRORS['auth_error_id']}")
    lie = Answer(good.status, good.headers, json.dumps(good.body | {"status": "GONE"}))
    conformance.assert_lies_are_found("GET", "/api/auth-errors/{auth_error_id}", good, lie)


def test_a_false_workspace_is_found(workspaces: WorkspacesApi) -> None:
    good = workspaces.read(WORKSPACES["workspace_id"])
    conformance.assert_lies_are_found(
        "GET",
        "/v1/workspaces/{workspace_id}",
        good,
        Answer(good.status, good.headers | {"Retry-After": "soon"}, good.text),
        Answer(good.status, good.headers, json.dumps(good.body | {"phase": "GONE"})),
    )
