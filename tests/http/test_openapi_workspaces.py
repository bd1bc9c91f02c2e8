"""The OpenAPI document of workspaces is consistent with their function's responses (WS-2, WS-6, WS-8)."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import given, settings
from schemathesis.core.failures import FailureGroup

from dpp.workspaces.api.http import PROBLEMS
from dpp.workspaces.errors import OperationFailed
from dpp_cli.docs.openapi import workspace_examples as examples
from tests.http.test_openapi import BOUNDED, CHECKS, DOCUMENT, SCHEMA, as_response, authorize, sent_of, validator
from tests.support.api import Answer
from tests.workspaces.api.client import ROOT, WorkspacesApi, create_example_workspace
from tests.workspaces.conftest import env, fleet
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider

__all__ = ["env", "fleet"]  # fixtures

IDS = {"workspace_id": examples.WORKSPACE_ID}
ONE = f"{ROOT}/{{workspace_id}}"
OF_WORKSPACES = SCHEMA.include(path_regex=f"^{ROOT}")


@pytest.fixture
def client(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API of a database with the document's example workspace, and without a limit of workspaces."""
    monkeypatch.setenv("DPP_WORKSPACES_PER_TENANT", "100000")
    with closing(WorkspacesApi(env.database, env.url, monkeypatch, env.sqs)) as made:
        create_example_workspace(made)
        yield made


def send(case: schemathesis.Case[Any], client: WorkspacesApi) -> schemathesis.Response:
    """Send a generated case to the function with the owner's key."""
    headers, path, body = sent_of(case)
    authorize(case, headers, client.owner)
    if (
        headers.get("Idempotency-Key") == examples.KEY
    ):  # the generator's favourite value, and each body needs its own key
        headers["Idempotency-Key"] = f"key-{uuid4()}"
    query = {
        str(name): [str(one) for one in (value if isinstance(value, list) else [value])]
        for name, value in (case.query or {}).items()
    }
    answer = client.call(
        case.method.upper(), path.removeprefix(ROOT), headers=headers, query=query, body=body, token=""
    )
    return as_response(answer, case.method, path, headers)


@OF_WORKSPACES.parametrize()
@BOUNDED
def test_responses_conform_to_the_document(case: schemathesis.Case[Any], client: WorkspacesApi) -> None:
    """Any request, valid or not, gets a documented status, type, headers and schema, and no 5xx."""
    case.validate_response(send(case, client), checks=CHECKS)


@pytest.mark.parametrize(
    ("path", "method", "good"), [(ROOT, "POST", 201), (ONE, "PATCH", 200)], ids=["create", "change"]
)
def test_a_body_that_the_document_allows_is_accepted(client: WorkspacesApi, path: str, method: str, good: int) -> None:
    """Generated from the document only."""
    seen = Counter[int]()
    strategy = SCHEMA[path][method].as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)

    @settings(BOUNDED, max_examples=50)
    @given(case=strategy)
    def ask(case: schemathesis.Case[Any]) -> None:
        case.path_parameters = dict(IDS) if case.path_parameters else {}
        response = send(case, client)
        case.validate_response(response, checks=CHECKS)
        seen[response.status_code] += 1
        # 409: the same key for another body
        assert response.status_code in {200, 201, 409}, response.text

    ask()
    assert seen[good] >= 5


def test_the_examples_are_accepted(client: WorkspacesApi) -> None:
    sent = Counter[tuple[str, int]]()
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if not path.startswith(ROOT) or "requestBody" not in operation:
                continue
            below = path.format(**IDS).removeprefix(ROOT)
            shown = operation["requestBody"]["content"]["application/json"]["examples"]
            for name, example in shown.items():
                headers = {"Idempotency-Key": f"{examples.KEY}-{name.split()[0]}"}
                body = json.dumps(example["value"])
                answers = [client.call(method.upper(), below, headers=headers, body=body) for _ in range(2)]
                sent.update((method, answer.status) for answer in answers)
    assert sent == {("post", 201): 2, ("post", 200): 2, ("patch", 200): 6}


def test_bodies_in_every_state_fit_the_schema(client: WorkspacesApi, env: Environment, fleet: MemoryProvider) -> None:
    """WS-2, WS-3: new, under way, running, failed once, failed for good, deleted; no member is null."""

    def breaks(call: str) -> None:
        if call == "containers.start":
            raise OperationFailed("NoRoom", "There is no room.")

    found = env.create_in("STANDBY")
    new = client.created()
    client.change(found, {"standby_ttl_seconds": 60, "archive_ttl_seconds": None})
    bodies = [client.read(one).body for one in (found, new)]
    fleet.faults.before = breaks
    client.change(found, {"desired_state": "RUNNING"})
    while bodies[-1]["phase"] != "ERROR":
        env.observe(found)
        env.pass_time(20)
        bodies.append(client.read(found).body)
    bodies += [client.delete(found).body]
    env.observe(found)
    bodies += [client.read(found).body]
    for body in bodies:
        validator("/components/schemas/WorkspaceView").validate(body)
        assert None not in body.values()
    assert [body["phase"] for body in bodies[:2]] == ["STANDBY", "PENDING"]
    assert (bodies[-1]["phase"], "error" in bodies[-2]) == ("DELETED", True)
    validator("/components/schemas/WorkspacePageView").validate(client.pages(limit="1").body)
    events = client.events(found).body
    validator("/components/schemas/WorkspaceEventsView").validate(events)
    assert {one["kind"] for one in events["events"]} >= {"CREATED", "DESIRED", "PHASE", "STARTED", "FAILED"}


def test_every_error_of_its_own_conforms(client: WorkspacesApi, env: Environment) -> None:
    """With its own members."""
    runs, gone = env.create_in("RUNNING"), client.created()
    client.delete(gone)
    client.create({"name": "one"}, key="a-key-of-mine")
    refused = [
        ("GET", ONE, client.read(uuid4())),
        ("PATCH", ONE, client.change(gone, {})),
        ("POST", f"{ONE}/connect", client.connect(gone)),
        ("DELETE", ONE, client.delete(runs)),
        ("POST", ROOT, client.create({"name": "another"}, key="a-key-of-mine")),
    ]
    client.rewire(DPP_WORKSPACES_PER_TENANT="1")
    refused.append(("POST", ROOT, client.create()))
    for method, path, answer in refused:
        SCHEMA[path][method].Case(path_parameters=IDS).validate_response(
            as_response(answer, method, "/", {}), checks=CHECKS
        )
    assert {answer.body["reason_code"] for _, _, answer in refused} == {kind.reason_code for kind in PROBLEMS.values()}


def test_the_conformance_test_can_fail(client: WorkspacesApi) -> None:
    """The checks find a status, a header or a member that is not in the document."""
    operation = SCHEMA[ONE]["GET"]
    good = client.read(examples.WORKSPACE_ID)
    operation.Case(path_parameters=IDS).validate_response(as_response(good, "GET", "/", {}), checks=CHECKS)
    lies = (
        Answer(418, good.headers, good.text),
        Answer(good.status, good.headers | {"Retry-After": "soon"}, good.text),
        Answer(good.status, good.headers, json.dumps(good.body | {"phase": "GONE"})),
    )
    for lie in lies:
        with pytest.raises(FailureGroup):
            operation.Case(path_parameters=IDS).validate_response(as_response(lie, "GET", "/", {}), checks=CHECKS)
