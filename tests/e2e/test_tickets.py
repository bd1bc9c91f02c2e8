"""Tickets on the deployed stack: filed over HTTP, carried out by the clock, cleaned by the reaper (TIX-1 … TIX-7)."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin
from uuid import uuid4

import httpx
import pytest

from dpp.platform.db import exclusive
from dpp.platform.db.exclusive import LeaseTaken
from dpp.platform.db.postgres import Database
from dpp.platform.keys import operator_keys
from dpp.tickets.cycle import LEASE_NAME
from dpp.tickets.staleness import LATEST_KEY, snapshot_key_of
from dpp_cli.local.localstack import client_session
from tests.e2e.conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

A_CYCLE_SECONDS = 150  # a rule fires once a minute; a busy machine may miss one
POLL_SECONDS = 1.0
RUN = "/api/tickets/reaper/run"
STOP = "/api/ops/emergency-stop"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator with a key, as a client of the deployed API."""

    platform: Platform
    operator_id: str
    token: str

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Any call; checked against the document."""
        headers = {"Authorization": f"Bearer {self.token}"}
        sent: dict[str, Any] = {} if body is None else {"json": body}
        return self.platform.call(method, path, headers=headers, **sent)

    def file(self, request_type: str, request_id: str = "", **params: Any) -> httpx.Response:
        """POST /api/tickets."""
        body = {
            "request_id": request_id or str(uuid4()),
            "request_type": request_type,
            "params": params,
            "reason": "end to end",
        }
        return self.call("POST", "/api/tickets", body)

    def filed(self, request_type: str, **params: Any) -> str:
        """The id of a new ticket."""
        answer = self.file(request_type, **params)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["request_id"])

    def ticket(self, request_id: str) -> Mapping[str, Any]:
        """GET /api/tickets/{request_id}."""
        found: Mapping[str, Any] = self.call("GET", f"/api/tickets/{request_id}").json()
        return found

    def ended(self, request_id: str) -> Mapping[str, Any]:
        """A ticket, once a cycle has ended it."""
        deadline = time.monotonic() + A_CYCLE_SECONDS
        while (found := self.ticket(request_id))["current_status"] in {"OPEN", "IN_PROGRESS"}:
            assert time.monotonic() < deadline, f"no cycle ended it: {found}"
            time.sleep(POLL_SECONDS)
        return found

    def fired(self) -> Mapping[str, Any]:
        """The receipt of a cycle that is fired by hand, once none of the clock's is under way."""
        state = self.platform.state
        client = client_session(state.aws_endpoint_url).client("lambda", endpoint_url=state.aws_endpoint_url)
        deadline = time.monotonic() + A_CYCLE_SECONDS
        while True:
            answer = client.invoke(FunctionName=f"dpp-{state.outputs['Stage']}-ops_cycle")
            found: Mapping[str, Any] = json.loads(answer["Payload"].read())
            if found["outcome"] != "ANOTHER_IS_RUNNING":
                kept = self.call("GET", "/api/ops/cycle/latest").json()
                return kept if kept["run_id"] == found["run_id"] else found
            assert time.monotonic() < deadline, "another cycle is always under way"
            time.sleep(POLL_SECONDS)

    def decide_stop(self, *, stopped: bool) -> httpx.Response:
        """PUT /api/ops/emergency-stop."""
        return self.call("PUT", STOP, {"stopped": stopped, "reason": "end to end"})


@pytest.fixture
def operator(platform: Platform) -> Operator:
    """A new operator."""
    operator_id, minted = f"e2e-{uuid4().hex[:12]}", operator_keys.mint()
    operator_keys.store(platform.database, minted, operator_id)
    return Operator(platform, operator_id, minted.token)


@contextmanager
def no_cycle(platform: Platform) -> Iterator[None]:
    """The clock fires, and finds that another cycle is under way: what is stale is left for who asks by hand."""
    with closing(Database(platform.state.database_url)) as database, ExitStack() as until_the_end:
        deadline = time.monotonic() + 60
        while True:
            try:
                until_the_end.enter_context(exclusive.held(database, LEASE_NAME, "end to end", ttl_seconds=60))
            except LeaseTaken:
                assert time.monotonic() < deadline
                time.sleep(POLL_SECONDS)
            else:
                break
        yield


def left_behind(platform: Platform) -> str:
    """A ticket as a processor leaves it that died 25 hours ago."""
    request_id = str(uuid4())
    with platform.database.transaction():
        platform.database.execute(
            "INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status, moved_by,"
            " created_at, updated_at)"
            " VALUES (%s, 'DLQ_REDRIVE', '{}', 'end to end', 'e2e', 'OPEN', 'e2e', now() - interval '26 hours',"
            " now() - interval '26 hours')",
            (request_id,),
        )
        platform.database.execute(
            "UPDATE tickets SET current_status = 'IN_PROGRESS', processor_id = 'dead', moved_by = 'dead',"
            " attempts = 1, last_processed_at = now() - interval '25 hours',"
            " updated_at = now() - interval '25 hours' WHERE request_id = %s",
            (request_id,),
        )
    return request_id


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status and the reason of a refusal."""
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["reason_code"]


def test_tix_6_the_next_cycle_carries_tickets_out_once_and_says_so(platform: Platform, operator: Operator) -> None:
    """TIX-5, TIX-6, TIX-7: filed, carried out in their order, each with its result, history and place in a receipt."""
    tenant = platform.tenant()
    credit = operator.filed("BUDGET_CREDIT", tenant_id=tenant.tenant_id, amount_usd="5.0000")
    off = operator.filed("EXECUTION_DISABLE", pack_type="eval")
    on = operator.filed("EXECUTION_ENABLE", pack_type="eval")
    again = operator.file("BUDGET_CREDIT", credit, tenant_id=tenant.tenant_id, amount_usd="5.0000")
    assert (again.status_code, again.headers["Location"]) == (200, f"tickets/{credit}")

    for request_id in (credit, off, on):
        ticket = operator.ended(request_id)
        assert (ticket["current_status"], ticket["requested_by"]) == ("DONE", operator.operator_id), ticket
        assert ticket["result"]["status"] == "DONE"
        steps = [(step["to_status"], step["actor"]) for step in ticket["transitions"]]
        assert [status for status, _ in steps] == ["OPEN", "IN_PROGRESS", "DONE"]
        assert steps[0][1] == operator.operator_id
        assert {actor.partition("/")[0] for _, actor in steps[1:]} == {"OPS_CYCLE"}
        assert ticket["created_at"].endswith("+09:00")
    assert "5.0000 USD" in operator.ticket(credit)["result"]["message"]
    position = platform.position(tenant)
    assert (position.balance_usd_micros, position.balanced) == (15_000_000, True)
    row = platform.database.execute(
        "SELECT enabled, decision_id::text FROM execution_switches WHERE scope = 'eval'"
    ).fetchone()
    assert row == (True, on)

    receipt = operator.fired()
    assert (receipt["schema"], receipt["outcome"]) == ("OPS_RUN_RECEIPT_V1", "COMPLETED")
    assert receipt["emergency_stop"]["stopped"] is False
    assert (receipt["ticket_reaper"]["step"], receipt["ticket_reaper"]["published"]) == ("0.25", True)
    carried_out = platform.database.execute(
        "SELECT item ->> 'request_id', item ->> 'outcome' FROM ops_run_receipts,"
        " jsonb_array_elements(receipt -> 'tickets' -> 'items') AS item"
    ).fetchall()
    assert [pair for pair in carried_out if pair[0] == credit] == [(credit, "DONE")]
    counted = operator.call("GET", "/api/tickets/counters").json()
    assert counted["by_type"]["BUDGET_CREDIT"]["done"]["last_day"] >= 1
    assert platform.position(tenant).balance_usd_micros == 15_000_000


def test_tix_2_a_stale_ticket_ends_failed_with_evidence_in_the_bucket(platform: Platform, operator: Operator) -> None:
    """TIX-2 … TIX-5: by hand; the report is the answer, the row, and both objects."""
    endpoint = platform.state.aws_endpoint_url
    s3, bucket = (client_session(endpoint).client("s3", endpoint_url=endpoint), platform.state.outputs["ReportsBucket"])
    with no_cycle(platform):
        request_id = left_behind(platform)
        looked = operator.call("POST", RUN, {"dry_run": True})
        assert (looked.json()["decision"], "Location" in looked.headers) == ("NONE", False)
        assert operator.ticket(request_id)["current_status"] == "IN_PROGRESS"
        answer = operator.call("POST", RUN)
        assert answer.status_code == 200, answer.text
        report = answer.json()
        latest = s3.get_object(Bucket=bucket, Key=LATEST_KEY)["Body"].read()
        assert json.loads(latest) == report
    assert (report["schema"], report["decision"]) == ("TICKET_REAPER_REPORT_V1", "CLEANED")
    assert report["threshold_seconds"] == 86_400
    [item] = [item for item in report["cleaned_items"] if item["request_id"] == request_id]
    assert item["reason"] == "AUTO_CLEANUP_STALE_IN_PROGRESS"
    [snapshot] = report["evidence_refs"]
    assert answer.headers["Location"] == f"snapshots/{snapshot.rpartition('/')[2]}"
    assert json.loads(s3.get_object(Bucket=bucket, Key=snapshot)["Body"].read()) == report
    assert operator.call("GET", urljoin(RUN, answer.headers["Location"])).json() == report

    ticket = operator.ticket(request_id)
    assert ticket["current_status"] == "FAILED"
    assert ticket["result"] | {"processed_at": ""} == {
        "request_id": request_id,
        "processor_id": "TICKET_REAPER",
        "status": "FAILED",
        "processed_at": "",
        "message": "AUTO_CLEANUP_STALE_IN_PROGRESS: exceeded 86400s threshold",
    }
    assert ticket["transitions"][-1]["actor"] == "TICKET_REAPER"


def test_tix_5_what_is_refused_is_a_problem(platform: Platform, operator: Operator) -> None:
    """TIX-5: by the function for every path below /api, known or not."""
    filed = operator.filed("DLQ_REDRIVE", limit=1)
    nobody = Operator(platform, "nobody", platform.tenant(credit_usd_micros=0).token)
    assert problem(nobody.file("DLQ_REDRIVE")) == (401, "AUTH_INVALID")
    assert problem(platform.call("GET", "/api/tickets")) == (401, "AUTH_INVALID")
    assert problem(operator.file("DLQ_REDRIVE", filed, limit=2)) == (409, "TICKET_CONFLICT")
    assert problem(operator.file("BUDGET_CREDIT", tenant_id="t")) == (422, "VALIDATION_FAILED")
    assert problem(operator.file("MAKE_COFFEE")) == (422, "VALIDATION_FAILED")
    assert problem(operator.call("POST", RUN, {"threshold_seconds": 0})) == (422, "VALIDATION_FAILED")
    assert problem(operator.call("GET", "/api/tickets?limit=0")) == (422, "VALIDATION_FAILED")
    for unknown in (str(uuid4()), "not-a-ticket", "%00"):
        assert problem(operator.call("GET", f"/api/tickets/{unknown}")) == (404, "TICKET_NOT_FOUND")
    never = snapshot_key_of("reaper_19700101_000000.json").rpartition("/")[2]
    gone = operator.call("GET", f"/api/tickets/reaper/snapshots/{never}")
    assert problem(gone) == (404, "SNAPSHOT_NOT_FOUND")
    for nowhere in ("/api", "/api/nothing", "/api/tickets/reaper/latest/more", "/api/ops"):
        assert problem(operator.call("GET", nowhere)) == (404, "NOT_FOUND")
    for method, path, allowed in (
        ("DELETE", "/api/tickets", {"GET", "POST"}),
        ("DELETE", f"/api/tickets/{filed}", {"GET"}),
        ("GET", RUN, {"POST"}),
        ("POST", "/api/tickets/counters", {"GET"}),
        ("POST", STOP, {"GET", "PUT"}),
    ):
        wrong = operator.call(method, path)
        assert problem(wrong) == (405, "METHOD_NOT_ALLOWED"), path
        assert set(wrong.headers["Allow"].split(", ")) == allowed


def test_tix_6_the_emergency_stop_ends_the_next_cycle_before_it_changes_anything(
    platform: Platform, operator: Operator
) -> None:
    """TIX-6: neither ticket nor reaper while it is set; cleared, the next cycle goes on."""
    try:
        stopped = operator.decide_stop(stopped=True)
        assert stopped.json()["actor"] == operator.operator_id
        request_id = operator.filed("DLQ_REDRIVE", limit=1)
        receipt = operator.fired()
        assert receipt["outcome"] == "STOPPED"
        assert receipt["emergency_stop"]["actor"] == operator.operator_id
        assert (receipt["ticket_reaper"]["outcome"], receipt["tickets"]["outcome"]) == ("SKIPPED", "SKIPPED")
        assert operator.ticket(request_id)["current_status"] == "OPEN"
        assert problem(operator.call("POST", RUN)) == (409, "EMERGENCY_STOP_SET")
    finally:
        cleared = operator.decide_stop(stopped=False)
    assert cleared.json()["stopped"] is False
    operator.fired()
    assert operator.ended(request_id)["current_status"] == "DONE"
