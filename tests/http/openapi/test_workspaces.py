"""The OpenAPI document of workspaces is consistent with their function's responses (WS-2, WS-6, WS-8)."""

import json
from collections import Counter
from uuid import uuid4

from dpp.workspaces.api.http import PROBLEMS
from dpp.workspaces.errors import OperationFailed
from dpp_cli.docs.openapi.examples import WORKSPACES
from tests.http.openapi.conformance import assert_conforms, bodies_below, validator
from tests.workspaces.api.client import ROOT, WorkspacesApi
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider

ONE = f"{ROOT}/{{workspace_id}}"


def test_the_examples_are_accepted(workspaces: WorkspacesApi) -> None:
    sent = Counter[tuple[str, int]]()
    for method, path, shown in bodies_below(ROOT):
        below = path.format(workspace_id=WORKSPACES["workspace_id"]).removeprefix(ROOT)
        for name, example in shown.items():
            headers = {"Idempotency-Key": f"{WORKSPACES['key']}-{name.split()[0]}"}
            answers = [workspaces.call(method, below, headers=headers, body=json.dumps(example)) for _ in range(2)]
            sent.update((method, answer.status) for answer in answers)
    assert sent == {("POST", 201): 2, ("POST", 200): 2, ("PATCH", 200): 6}


def test_bodies_in_every_state_fit_the_schema(
    workspaces: WorkspacesApi, env: Environment, fleet: MemoryProvider
) -> None:
    """WS-2, WS-3: new, under way, running, failed once, failed for good, deleted; no member is null."""

    def breaks(call: str) -> None:
        if call == "containers.start":
            raise OperationFailed("NoRoom", "There is no room.")

    found = env.create_in("STANDBY")
    new = workspaces.created()
    workspaces.change(found, {"standby_ttl_seconds": 60, "archive_ttl_seconds": None})
    bodies = [workspaces.read(one).body for one in (found, new)]
    fleet.faults.before = breaks
    workspaces.change(found, {"desired_state": "RUNNING"})
    while bodies[-1]["phase"] != "ERROR":
        env.observe(found)
        env.pass_time(20)
        bodies.append(workspaces.read(found).body)
    bodies += [workspaces.delete(found).body]
    env.observe(found)
    bodies += [workspaces.read(found).body]
    for body in bodies:
        validator("/components/schemas/WorkspaceView").validate(body)
        assert None not in body.values()
    assert [body["phase"] for body in bodies[:2]] == ["STANDBY", "PENDING"]
    assert (bodies[-1]["phase"], "error" in bodies[-2]) == ("DELETED", True)
    validator("/components/schemas/WorkspacePageView").validate(workspaces.pages(limit="1").body)
    events = workspaces.events(found).body
    validator("/components/schemas/WorkspaceEventsView").validate(events)
    assert {one["kind"] for one in events["events"]} >= {"CREATED", "DESIRED", "PHASE", "STARTED", "FAILED"}


def test_every_error_of_its_own_conforms(workspaces: WorkspacesApi, env: Environment) -> None:
    """With its own members."""
    runs, gone = env.create_in("RUNNING"), workspaces.created()
    workspaces.delete(gone)
    workspaces.create({"name": "one"}, key="a-key-of-mine")
    refused = [
        ("GET", ONE, workspaces.read(uuid4())),
        ("PATCH", ONE, workspaces.change(gone, {})),
        ("POST", f"{ONE}/connect", workspaces.connect(gone)),
        ("DELETE", ONE, workspaces.delete(runs)),
        ("POST", ROOT, workspaces.create({"name": "another"}, key="a-key-of-mine")),
    ]
    workspaces.rewire(DPP_WORKSPACES_PER_TENANT="1")
    refused.append(("POST", ROOT, workspaces.create()))
    for method, path, answer in refused:
        assert_conforms(method, path, answer)
    assert {answer.body["reason_code"] for _, _, answer in refused} == {kind.reason_code for kind in PROBLEMS.values()}
