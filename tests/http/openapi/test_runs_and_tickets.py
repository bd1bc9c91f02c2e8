"""Runs and tickets over HTTP are as the OpenAPI document describes them."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from dpp.packs.contract import PackFailure, PackReason
from dpp.platform.db import exclusive
from dpp.tickets import store
from dpp.tickets.config import ReaperSettings
from dpp.tickets.model import REAPER
from tests.http.openapi.conformance import assert_conforms, bodies_below, validator
from tests.http.state import work
from tests.support.api import ApiClient, a_body
from tests.support.operator_api import OperatorApi
from tests.support.world import World


def test_the_examples_of_a_submit_are_accepted(api: ApiClient, world: World) -> None:
    """RUN-2."""
    tenant = world.tenant()
    [(_, _, examples)] = bodies_below("/v1/runs$")
    for name, example in examples.items():
        assert api.submit(tenant, example).status == 202, name


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
    assert brought == [[], ["result"], ["result"], ["problem", "result"]]


def test_the_examples_of_operators_are_accepted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIX-1, TIX-5, TIX-6."""
    client, sent = OperatorApi.of_world(world, monkeypatch), Counter[int]()
    for method, path, examples in bodies_below("/api/(?!auth-errors)"):
        for name, example in examples.items():
            answer = client.send(method, path, example)
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
    for answer in (running, stopped):
        assert_conforms("POST", "/api/tickets/reaper/run", answer)
    assert (running.headers["Retry-After"], running.body["actor"]) == ("10", "lee")
    assert datetime.fromisoformat(running.body["started_at"]).utcoffset() is not None
    assert (stopped.body["reason_code"], stopped.body["actor"]) == ("EMERGENCY_STOP_SET", "kim")
