"""No raw input, key or secret leaves a function in a log, a metric, an error or a queue message (RUN-31, D8).

Each case is a process, as in Lambda, whose stdout and stderr are searched for canaries: in the inputs and results, in
the API key, in the passwords of Postgres and Redis, in the key of the decision engine.
"""

import hmac
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest

from dpp.platform.keys import operator_keys
from dpp_cli.paths import ROOT
from tests.conftest import _AWS_ENVIRONMENT
from tests.lifecycle.poll_environment import LOGIN, recorded
from tests.mcp.posted import Posted, handshake, modern
from tests.mcp.posted import call as tool_call
from tests.observability.emf import measured
from tests.support.api import a_body, function_of, gateway_event
from tests.support.world import Tenant, World

INPUT = "canary-1nput-k7q"
DATABASE_PASSWORD = "canary-p0stgres-v2x"
REDIS_PASSWORD = "canary-r3dis-m9w"
ENGINE_KEY = "canary-3ngine-t5j"
ANY_RELIABILITY = {"max_cost_usd": "0.2500", "min_reliability_score": 0.0}
INFO = {"name": INPUT, "version": INPUT}
JOBS = ("run_reaper", "run_sweeper", "run_reconcile", "run_retention", "ops_cycle", "lifecycle_chamberlain")

type Step = dict[str, Any]


@dataclass(slots=True)
class Ran:
    """The output of the process."""

    output: str
    messages: list[str]
    answers: list[tuple[str, Any]]

    def statuses(self, function: str) -> list[int]:
        """The HTTP statuses of a function's answers."""
        return [answer["statusCode"] for name, answer in self.answers if name == function]

    def events(self) -> list[str]:
        """The messages of the platform's log lines."""
        lines = [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]
        return [line["message"] for line in lines if "message" in line]


@dataclass(slots=True)
class Environment:
    """A function's environment, in which steps can be run."""

    world: World
    tenant: Tenant
    operator_token: str
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *steps: Step, packs: str = "", aws: bool = True, root_level: str = "DEBUG") -> Ran:
        """Run the steps, and assert that no canary is in the output."""
        leaves = self.folder / "leaves.json"
        plan = {"steps": steps, "packs": packs, "aws": aws, "root_level": root_level, "leaves": str(leaves)}
        ran = subprocess.run(
            [sys.executable, "-m", "tests.observability.driver"],
            input=json.dumps(plan),
            env=self.variables,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        output = ran.stdout + ran.stderr
        assert ran.returncode == 0, output[-4_000:]
        left = json.loads(leaves.read_text(encoding="utf-8"))
        self.assert_clean(output + json.dumps(left["messages"], ensure_ascii=False))
        if "POWERTOOLS_DEV" not in self.variables:  # it splits each record into several lines
            measured(ran.stdout)  # a metric line has only members of the table
        return Ran(output, left["messages"], [tuple(one) for one in left["answers"]])

    def assert_clean(self, text: str) -> None:
        """Assert that no canary is in the text, as is, as Base64 or percent-encoded."""
        tokens = (self.tenant.token, self.operator_token)
        secrets = [token.rpartition("_")[2] for token in tokens]
        for canary in (INPUT, DATABASE_PASSWORD, REDIS_PASSWORD, ENGINE_KEY, *tokens, *secrets):
            for form in (canary, b64encode(canary.encode()).decode().rstrip("=")[:-1], canary.encode().hex()):
                assert form not in text, text[max(0, text.index(form) - 300) : text.index(form) + 100]

    def submit(self, body: object = None, *, raw: str | None = None, **headers: str) -> Step:
        """A submit with canaries in the inputs and in the idempotency key."""
        sent = {
            "Content-Type": ["application/json"],
            "Idempotency-Key": [f"key-{INPUT}-{os.urandom(4).hex()}"],
            "Authorization": [f"Bearer {self.tenant.token}"],
        } | {name.replace("_", "-"): [value] for name, value in headers.items()}
        text = json.dumps(body or decision()) if raw is None else raw
        return {"function": "runs_submit", "event": gateway_event("POST", "/v1/runs", sent, text)}

    def message(self, posted: Posted, **headers: str) -> Step:
        """A message to the MCP endpoint."""
        sent = {
            "Content-Type": ["application/json"],
            "Authorization": [f"Bearer {self.tenant.token}"],
            "Mcp-Session-Id": [INPUT],
        } | {name: [value] for name, value in posted.headers.items()}
        sent |= {name.replace("_", "-"): [value] for name, value in headers.items()}
        return {"function": "runs_mcp", "event": gateway_event("POST", "/mcp", sent, posted.body)}

    def get(self, path: str) -> Step:
        """A read."""
        headers = {"Authorization": [f"Bearer {self.tenant.token}"], "X-Other": [INPUT]}
        return {"function": function_of(path), "event": gateway_event("GET", path, headers, None)}

    def operate(self, method: str, path: str, body: object = None, *, raw: str | None = None) -> Step:
        """An operator's request."""
        headers = {
            "Content-Type": ["application/json"],
            "Authorization": [f"Bearer {self.operator_token}"],
            "X-Other": [INPUT],
        }
        text = json.dumps(body) if body is not None else raw
        return {"function": "tickets_api", "event": gateway_event(method, path, headers, text)}

    def report(self, **changes: object) -> Step:
        """An authentication error with canaries in every text field."""
        body = {
            "requestId": INPUT,
            "occurredAt": "2026-03-01T12:00:00Z",
            "httpStatus": 401,
            "exceptionClass": f"com.example.{INPUT}",
            "stacktrace": f"com.example.E: {INPUT}\n\tat com.example.{INPUT}.run(E.java:1)",
            "exceptionMessage": INPUT,
            "rootCauseMessage": INPUT,
            "requestPath": f"/{INPUT}?token={INPUT}",
        }
        headers = {
            "Content-Type": ["application/json"],
            "Authorization": [f"Bearer {self.tenant.token}"],
            "X-Other": [INPUT],
        }
        text = json.dumps(body | changes)
        return {"function": "auth_errors_api", "event": gateway_event("POST", "/api/auth-errors", headers, text)}

    def decide(self, path: str, body: object = None) -> Step:
        """An operator's request about authentication errors."""
        place, _, query = path.partition("?")
        headers = {"Content-Type": ["application/json"], "Authorization": [f"Bearer {self.operator_token}"]}
        asked = {name: [value] for name, _, value in [query.partition("=")] if name}
        method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
        return {"function": "auth_errors_api", "event": gateway_event(method, place, headers, text, asked)}

    def own(self, method: str, path: str, body: object = None) -> Step:
        """A tenant's request about workspaces, with a canary in the key."""
        headers = {
            "Content-Type": ["application/json"],
            "Authorization": [f"Bearer {self.tenant.token}"],
            "Idempotency-Key": [f"key-{INPUT}"],
            "X-Other": [INPUT],
        }
        text = None if body is None else json.dumps(body)
        return {"function": "workspaces_api", "event": gateway_event(method, path, headers, text)}

    def file(self, request_type: str, **params: object) -> Step:
        """A ticket with a canary as its reason."""
        body = {"request_id": str(uuid4()), "request_type": request_type, "reason": INPUT, "params": params}
        return self.operate("POST", "/api/tickets", body)


def decision(question: str = "What is it?") -> dict[str, Any]:
    """A decision with the canary in its inputs, and so in its answer."""
    inputs = {"question": f"{question} {INPUT}", "context": f"It is {INPUT}. It was {INPUT}."}
    return a_body(inputs=inputs, options={"inline": 1}, reservation=ANY_RELIABILITY)


BODIES: dict[str, dict[str, Any]] = {
    "decision": decision(),
    "compliance": a_body(
        pack_type="compliance",
        inputs={
            "documents": [{"id": "one", "text": f"{INPUT} 900101-1234568 {INPUT}@example.com"}],
            "patterns": [{"id": "mine", "pattern": INPUT}],
        },
    ),
    "eval": a_body(
        pack_type="eval",
        inputs={
            "predictions": [{"id": "q1", "value": INPUT}],
            "references": [{"id": "q1", "value": INPUT}],
            "metrics": [{"type": "exact_match"}],
        },
    ),
    "url": a_body(
        pack_type="url",
        inputs={"urls": [f"https://{INPUT}.invalid/{INPUT}", f"https://127.0.0.1/{INPUT}"]},
        reservation=ANY_RELIABILITY,
    ),
}
WORKER: Step = {"function": "run_worker", "deliver": True}
TICKS: list[Step] = [{"function": name, "event": {"time": INPUT}} for name in JOBS]


@pytest.fixture
def environment(world: World, tmp_path: Path) -> Environment:
    """A healthy environment with canaries as passwords, and every verbose switch of powertools on."""
    tenant, operator = world.tenant(), operator_keys.mint()
    world.database.using(operator_keys.store, operator, "ops")
    variables = {
        **_AWS_ENVIRONMENT,
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "DATABASE_URL": world.database_url.replace("postgres@", f"postgres:{DATABASE_PASSWORD}@"),
        "REDIS_URL": world.redis_url.replace("redis://", f"redis://default:{REDIS_PASSWORD}@"),
        "DPP_RUN_QUEUE_URL": world.queue_url,
        "DPP_RUN_DEAD_LETTER_QUEUE_URL": world.queue_url,
        "DPP_RESULTS_BUCKET": world.bucket,
        "DPP_REPORTS_BUCKET": world.bucket,
        "DPP_STATE_BUCKET": world.bucket,
        "DPP_AUTH_ERROR_QUEUE_URL": world.queue_url,
        "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": world.queue_url,
        "DPP_AUTH_ERROR_WAKE_QUEUE_URL": world.queue_url,
        "DPP_TEST_CANARY": INPUT,
        "POWERTOOLS_LOG_LEVEL": "DEBUG",
        "POWERTOOLS_LOGGER_LOG_EVENT": "true",
        "POWERTOOLS_DEBUG": "true",
    }
    return Environment(world, tenant, operator.token, tmp_path, variables)


def test_successful_runs_leak_nothing(environment: Environment) -> None:
    """Every pack, from its submit to its end, and all the jobs."""
    ran = environment.run(*(environment.submit(body) for body in BODIES.values()), WORKER, *TICKS)
    assert ran.statuses("runs_submit") == [202] * len(BODIES)
    assert ran.events().count("run ended") == len(ran.messages) == len(BODIES)
    rows = environment.world.sql("SELECT run_id, status FROM runs")
    assert {row[1] for row in rows} == {"COMPLETED"}
    read = environment.run(*(environment.get(f"/v1/runs/{row[0]}") for row in rows))
    assert set(read.statuses("runs_read")) <= {200, 503}  # the first process's S3 had the objects


def test_the_developer_mode_of_powertools_leaks_nothing(environment: Environment) -> None:
    """POWERTOOLS_DEV would print every event and answer with tracebacks by default."""
    environment.variables["POWERTOOLS_DEV"] = "true"
    explodes: Step = {"sabotage": ("dpp.runs.store", "find_for_owner", "chained")}
    read = environment.get("/v1/runs/8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11")
    ran = environment.run(explodes, environment.submit(), WORKER, read)
    assert (ran.statuses("runs_submit"), ran.statuses("runs_read")) == ([202], [500])
    environment.assert_clean(json.dumps(ran.answers))


def test_a_refused_request_leaks_nothing(environment: Environment) -> None:
    submit = environment.submit
    ran = environment.run(
        submit(a_body(inputs={"question": INPUT, INPUT: INPUT})),
        submit(a_body(inputs={"mode": INPUT})),
        submit(a_body(pack_type=INPUT)),
        submit(a_body(reservation={"max_cost_usd": INPUT})),
        submit(a_body(meta={"trace_id": f"{INPUT} unfit"})),
        submit({INPUT: INPUT}),
        submit(raw=f'{{"{INPUT}'),
        submit(raw=f'{{"{INPUT}":1,"{INPUT}":2}}'),
        submit(raw=f'"{INPUT}\\u0000"'),
        submit(Content_Type=INPUT),
        submit(Authorization=f"Bearer dpp_{INPUT}"),
        submit(Authorization=f"Basic {INPUT}"),
        environment.get(f"/v1/runs/{INPUT}"),
        environment.get(f"/{INPUT}"),
    )
    assert set(ran.statuses("runs_submit")) == {400, 401, 415, 422}
    assert (ran.statuses("runs_read"), ran.statuses("health")) == ([404], [404])


def test_tool_calls_leak_nothing(environment: Environment) -> None:
    """RUN-33: neither arguments nor an unknown tool, method, id, version or argument name."""
    message = environment.message
    asked = {"question": INPUT, "context": INPUT, "max_cost_usd": 0.25}
    file = {"input_files": [f"data:{INPUT};base64,aGVsbG8="], "max_cost_usd": 0.25}
    taken = environment.run(
        message(tool_call(json.dumps(asked | {"idempotency_key": f"key-{INPUT}"}))),
        message(tool_call(json.dumps(asked))),
        message(tool_call(json.dumps({"urls": [INPUT], "max_cost_usd": 0.25}), "dpp_url_run_submit")),
        message(tool_call(json.dumps(file), "dpp_ocr_run_submit")),
        message(handshake("initialize", {"protocolVersion": INPUT, "capabilities": {}, "clientInfo": INFO})),
        message(modern("tools/list", {INPUT: INPUT}, id=INPUT)),
    )
    assert taken.statuses("runs_mcp") == [200] * 6
    assert taken.events().count("run accepted") == 4
    refused = environment.run(
        message(tool_call(json.dumps(asked | {INPUT: INPUT, "max_cost_usd": INPUT}))),
        message(tool_call(json.dumps(asked | {"idempotency_key": f"{INPUT} "}))),
        message(tool_call("{}", INPUT)),
        message(modern(INPUT)),
        message(modern("tools/list", {"cursor": INPUT})),
        message(modern("tools/list"), Mcp_Method=INPUT),
        message(modern("tools/list"), MCP_Protocol_Version=INPUT),
        message(Posted(f'{{"{INPUT}')),
        message(Posted(f'["{INPUT}"]')),
        message(modern("tools/list"), Origin=f"https://{INPUT}.example"),
        message(modern("tools/list"), Accept=INPUT),
        message(modern("tools/list"), Authorization=f"Bearer dpp_{INPUT}"),
    )
    assert refused.statuses("runs_mcp") == [200, 200, 400, 404, 400, 400, 400, 400, 400, 403, 406, 401]
    broken = environment.run(
        {"sabotage": ("dpp.runs.submit_store", "insert", "chained")},
        message(tool_call(json.dumps(asked | {"timebox_sec": 5}))),
    )
    assert broken.statuses("runs_mcp") == [500]


CYCLE: Step = {"function": "ops_cycle", "event": {"time": INPUT}}
STOP = "/api/ops/emergency-stop"


def test_tickets_log_ids_types_states_and_actors_only(environment: Environment) -> None:
    """TIX-5, TIX-6: parameters and reasons are an operator's text, and appear only in rows and answers."""
    file, operate = environment.file, environment.operate
    filed = environment.run(
        file("BUDGET_CREDIT", tenant_id=INPUT, amount_usd="1.0000"),  # an unknown tenant: ends FAILED
        file("BUDGET_CREDIT", tenant_id=environment.tenant.tenant_id, amount_usd="1.0000"),
        file("EXECUTION_DISABLE", pack_type="eval"),
        file("DLQ_REDRIVE"),
        CYCLE,
        operate("GET", "/api/tickets"),
        operate("GET", "/api/tickets/counters"),
        operate("GET", "/api/tickets/reaper/latest"),
        operate("GET", "/api/ops/cycle/latest"),
        operate("POST", "/api/tickets/reaper/run"),
    )
    assert filed.statuses("tickets_api") == [201] * 4 + [200] * 5
    assert filed.events().count("ticket ended") == 4
    assert '"actor":"ops"' in filed.output
    assert '"request_type":"BUDGET_CREDIT"' in filed.output


def test_refusals_of_the_tickets_api_leak_nothing(environment: Environment) -> None:
    """TIX-5."""
    file, operate = environment.file, environment.operate
    ran = environment.run(
        file("BUDGET_CREDIT", tenant_id=f"{INPUT} {INPUT}", amount_usd=INPUT),
        file(INPUT),
        file("DLQ_REDRIVE", run_ids=[INPUT]),
        operate("POST", "/api/tickets", {INPUT: INPUT}),
        operate("POST", "/api/tickets", raw=f'{{"{INPUT}'),
        operate("POST", "/api/tickets/reaper/run", {"threshold_seconds": INPUT}),
        operate("PUT", STOP, {"stopped": INPUT, "reason": INPUT}),
        operate("GET", f"/api/tickets/{INPUT}"),
        operate("GET", f"/api/tickets/reaper/snapshots/{INPUT}"),
        operate("DELETE", f"/api/tickets/{INPUT}"),
        operate("GET", f"/api/{INPUT}"),
        {**environment.get(f"/api/tickets/{INPUT}"), "function": "tickets_api"},  # with a tenant's key
    )
    assert ran.statuses("tickets_api") == [422, 422, 422, 422, 400, 422, 422, 404, 404, 405, 404, 401]


def test_the_reason_of_the_emergency_stop_is_not_logged(environment: Environment) -> None:
    """TIX-6: the receipt has it, the log of the stopped cycle does not."""
    set_to = {"stopped": True, "reason": INPUT}
    ran = environment.run(
        environment.operate("PUT", STOP, set_to),
        environment.operate("POST", "/api/tickets/reaper/run"),
        CYCLE,
        environment.operate("GET", "/api/ops/cycle/latest"),
    )
    assert ran.statuses("tickets_api") == [200, 409, 200]
    assert INPUT in ran.answers[-1][1]["body"]


PUBLISHER: Step = {"function": "auth_errors_publish", "event": {"Records": [{"body": INPUT}]}}
CONSUMER: Step = {"function": "auth_errors_consume", "events": True}


def test_authentication_errors_log_ids_only(environment: Environment) -> None:
    """AUTH-1, AUTH-7: a service's data about itself and its users appears only in rows and answers."""
    ran = environment.run(
        environment.report(),
        environment.report(httpStatus=INPUT),
        environment.report(stacktrace=f"{INPUT}\0"),
        environment.report(requestId="r2", occurredAt=INPUT),
        environment.report(**{INPUT: INPUT}),
        PUBLISHER,
        CONSUMER,
        PUBLISHER,
        CONSUMER | {"more": [INPUT, f'{{"authErrorId": "{INPUT}"}}']},
        environment.decide(f"/api/auth-errors?exceptionClass={INPUT}"),
        environment.decide(f"/api/auth-errors/{INPUT}"),
        environment.decide(f"/api/auth-errors/{INPUT}/decisions", {"reason": INPUT, "decisionType": INPUT}),
    )
    assert ran.statuses("auth_errors_api") == [201, 422, 400, 422, 422, 200, 404, 422]
    assert ran.events().count("message done") == 4
    assert ran.events().count("dead letter") == 2
    assert '"auth_error_id"' in ran.output


CONTROL: Step = {"function": "workspaces_control", "queue": "DPP_WORKSPACE_LOOK_QUEUE_URL"}
STORAGE: Step = {"function": "workspaces_storage", "queue": "DPP_WORKSPACE_WORK_QUEUE_URL"}


def of_workspaces(function: str, body: str) -> Step:
    """A message."""
    record = {"messageId": "m", "receiptHandle": "h", "body": body, "eventSource": "aws:sqs"}
    return {"function": function, "event": {"Records": [record]}}


def test_workspaces_log_ids_only(environment: Environment) -> None:
    """A workspace's name and the content of its home appear only in rows, answers and archives."""
    words = f"import signal; open('{INPUT}', 'w').write('{INPUT}'); print('{INPUT}', flush=True); signal.pause()"
    environment.variables |= {
        "DPP_WORKSPACE_PROVIDER": "local",
        "DPP_WORKSPACE_ROOT": str(environment.folder / "workspaces"),
        "DPP_WORKSPACE_COMMAND": f'{sys.executable} -c "{words}"',
        "DPP_ARCHIVES_BUCKET": "archives-of-a-test",
    }
    request = {"name": INPUT, "desired_state": "RUNNING"}
    ran = environment.run(
        environment.own("POST", "/v1/workspaces", request),
        environment.own("POST", "/v1/workspaces", {"name": f"{INPUT}\0"}),
        environment.own("POST", "/v1/workspaces", {"name": "x", INPUT: INPUT}),
        CONTROL,
        STORAGE,
        CONTROL,
        environment.own("GET", f"/v1/workspaces/{INPUT}"),
        environment.own("PATCH", f"/v1/workspaces/{INPUT}", request),
        environment.own("GET", "/v1/workspaces"),
        {"workspaces": "ARCHIVED"},
        CONTROL,
        STORAGE,
        CONTROL,
        environment.own("GET", "/v1/workspaces"),
        of_workspaces("workspaces_control", INPUT),
        of_workspaces("workspaces_storage", INPUT),
        of_workspaces("workspaces_storage", '{"detail-type": "Scheduled Event"}'),
    )
    assert ran.statuses("workspaces_api") == [201, 400, 422, 404, 404, 200, 200]
    seen = [json.loads(answer["body"]) for name, answer in ran.answers if name == "workspaces_api"]
    assert [one["workspaces"][0]["phase"] for one in seen[-2:]] == ["RUNNING", "ARCHIVED"]
    assert ran.events().count("message not understood") == 2
    assert "message returned" not in ran.events()


FLOW: list[Step] = [
    {"function": f"lifecycle_{name}", "event": {"time": INPUT}} for name in ("sentinel", "king", "general", "envoy")
]


def of_the_flow(environment: Environment) -> None:
    """The roles' settings, with canaries as credentials, and an unreachable lifecycle_outside."""
    environment.variables |= {
        "DPP_LIFECYCLE_TENANT": environment.tenant.tenant_id,
        "DPP_LIFECYCLE_OUTSIDE_FUNCTION": "nobody",
        "DPP_GITHUB_LOGIN": LOGIN,
        "DPP_JIRA_JQL": f"text ~ '{INPUT}'",
        "DPP_GITHUB_WEBHOOK_SECRET": INPUT,
        "DPP_GITHUB_URL": f"http://{INPUT}.invalid",
        "DPP_GITHUB_TOKEN": ENGINE_KEY,
        "DPP_SLACK_URL": f"http://127.0.0.1:1/{ENGINE_KEY}",
    }


def mentioned() -> Step:
    """A new comment that mentions the bot, with canaries in every text field."""
    payload = recorded("github_delivery_issue_comment")
    payload["comment"] |= {"body": f"@{LOGIN} {INPUT}", "updated_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    payload["comment"]["created_at"] = payload["comment"]["updated_at"]
    payload["issue"]["title"] = INPUT
    body = json.dumps(payload)
    mac = hmac.new(INPUT.encode(), body.encode(), "sha256").hexdigest()
    headers = {"X-Hub-Signature-256": [f"sha256={mac}"], "X-GitHub-Event": ["issue_comment"]}
    return webhook(body, headers)


def webhook(body: str, headers: dict[str, list[str]]) -> Step:
    """A delivery."""
    event = gateway_event("POST", "/v1/webhooks/github", headers | {"X-Other": [INPUT]}, body)
    return {"function": "lifecycle_webhook", "event": event}


def test_the_event_flow_logs_ids_and_figures_only(environment: Environment) -> None:
    """LIFE-1 … LIFE-5: texts of events appear only in rows, prompts, results and messages."""
    of_the_flow(environment)
    outside: Step = {
        "function": "lifecycle_outside",
        "event": {"target": "GITHUB", "method": "GET", "path": f"/{INPUT}"},
    }
    odd: Step = {"function": "lifecycle_outside", "event": {INPUT: INPUT}}
    slack: Step = {"function": "lifecycle_outside", "event": {"target": "SLACK", "method": "POST", "body": INPUT}}
    wrong = webhook(INPUT, {"X-Hub-Signature-256": [f"sha256={INPUT}"], "X-GitHub-Event": [INPUT]})
    first = environment.run(mentioned(), wrong, *FLOW, WORKER, outside, odd, slack)
    assert first.statuses("lifecycle_webhook") == [202, 401]
    assert first.events().count("run ended") == 1
    environment.world.sql("UPDATE lifecycle_tasks SET next_look_at = now()")
    second = environment.run(*FLOW)
    reports = dict(second.answers)
    assert reports["lifecycle_general"]["asked"] == 1  # the answer to a plain comment is not reliable enough
    assert reports["lifecycle_sentinel"]["sources"][0]["outcome"] == "NOT_DUE"
    assert INPUT in str(environment.world.sql("SELECT payload FROM lifecycle_events"))


def test_a_leaking_pack_reaches_no_log(environment: Environment) -> None:
    """D6, D8: its process cannot write to the function's log, and its exception is reported by class."""
    environment.variables["DPP_DECISION_OPENAI_BASE_URL"] = "http://127.0.0.1:1/v1"
    environment.variables["DPP_DECISION_OPENAI_MODEL"] = "any"
    environment.variables["DPP_DECISION_OPENAI_API_KEY"] = ENGINE_KEY
    ends = [environment.submit(decision(end)) for end in ("echo", "raise", "exit")]
    ran = environment.run(*ends, WORKER, packs="tests.observability.leaky_pack")
    assert ran.events().count("run ended") == len(ends)


def test_a_failing_engine_leaks_no_key(environment: Environment) -> None:
    environment.variables["DPP_DECISION_OPENAI_BASE_URL"] = f"http://user:{ENGINE_KEY}@127.0.0.1:1/v1"
    environment.variables["DPP_DECISION_OPENAI_MODEL"] = "any"
    environment.variables["DPP_DECISION_OPENAI_API_KEY"] = ENGINE_KEY
    outside = {
        "function": "pack_outside",
        "event": {
            "run_id": "r",
            "pack_type": "decision",
            "inputs": decision()["inputs"],
            "timebox_sec": 5,
            "max_cost_usd_micros": 250_000,
        },
    }
    broken = {"function": "pack_outside", "event": {"inputs": {"question": INPUT}, INPUT: INPUT}}
    ran = environment.run(environment.submit(), WORKER, outside, broken)
    failed, refused = (answer for _, answer in ran.answers[-2:])
    assert failed["outcome"] == "failure"
    assert refused == "InvocationFailed"


SABOTAGE = (
    ("dpp.runs.submit_store", "insert", "library"),
    ("dpp.runs.store", "find_with_inputs", "lookup"),
    ("dpp.runs.envelope", "build", "chained"),
    ("dpp.runs.store", "claim", "library"),
    ("dpp.runs.store", "page_through", "chained"),
    ("dpp.runs.store", "find_for_owner", "value"),
    ("dpp.platform.keys.api_keys", "verify", "lookup"),
    ("dpp.tickets.store", "reap", "library"),
    ("dpp.tickets.store", "take_open", "chained"),
)


def test_an_unexpected_error_logs_class_and_frames_only(environment: Environment) -> None:
    """A library's message may quote its input; the log gets class and frames, Lambda only the class."""
    read = environment.get("/v1/runs/8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11")
    steps: list[Step] = []
    for broken in SABOTAGE:
        steps += [{"sabotage": broken}, environment.submit(), WORKER, read, *TICKS]
    events = environment.run(*steps).events()
    assert events.count("unexpected error") + events.count("message returned") >= len(SABOTAGE)


def _lost_database(variables: dict[str, str]) -> None:
    variables["DATABASE_URL"] = f"postgresql://postgres:{DATABASE_PASSWORD}@127.0.0.1:1/postgres"


def _lost_redis(variables: dict[str, str]) -> None:
    variables["REDIS_URL"] = f"redis://default:{REDIS_PASSWORD}@127.0.0.1:1/0"


def _wrong_password(variables: dict[str, str]) -> None:
    variables["REDIS_URL"] = variables["REDIS_URL"].replace("default:", "nobody:")


def _misspelt(variable: str, pattern: str) -> Callable[[dict[str, str]], None]:
    def change(variables: dict[str, str]) -> None:
        password = DATABASE_PASSWORD if variable == "DATABASE_URL" else REDIS_PASSWORD
        variables[variable] = pattern.format(password)

    return change


BREAKS = (
    _lost_database,
    _lost_redis,
    _wrong_password,
    _misspelt("DATABASE_URL", "mysql://u:{}@h/db"),
    _misspelt("DATABASE_URL", "postgresql://u:{}%@127.0.0.1:1/db"),
    _misspelt("DATABASE_URL", "postgresql://u:p@{}@127.0.0.1:1/db"),
    _misspelt("DATABASE_URL", "postgresql://u:p@127.0.0.1:1/db?{}=1"),
    _misspelt("REDIS_URL", "http://:{}@h:1/0"),
    _misspelt("REDIS_URL", "redis://:{}/x@127.0.0.1:1/0"),
    _misspelt("REDIS_URL", "redis://:{}#x@127.0.0.1:1/0"),
)


def test_a_failing_or_misspelt_dependency_leaks_no_password(environment: Environment) -> None:
    run = environment.world.submit(environment.tenant, inputs=decision()["inputs"]).run
    [message] = environment.world.messages()
    environment.world.ledger.client.flushall()
    steps: list[Step] = []
    for breaks in BREAKS:
        broken = dict(environment.variables)
        breaks(broken)
        steps += [
            {"environ": {name: broken[name] for name in ("DATABASE_URL", "REDIS_URL")}},
            environment.submit(),
            {**WORKER, "more": [message.model_dump_json()]},
            environment.get(f"/v1/runs/{run.id}"),
            environment.get("/readyz"),
            *TICKS,
        ]
    ran = environment.run(*steps)
    assert len(ran.statuses("runs_submit")) == len(BREAKS)
    assert set(ran.statuses("runs_submit")) <= {500, 503}
    assert not {200, 202} & {*ran.statuses("runs_submit"), *ran.statuses("runs_read")}


def test_a_failure_of_aws_leaks_nothing(environment: Environment) -> None:
    """An envelope that cannot be stored and a message that cannot be sent are not quoted in an error."""
    environment.world.submit(environment.tenant, inputs=decision()["inputs"])
    [message] = environment.world.messages()
    environment.variables |= {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "DPP_RUN_QUEUE_URL": "http://127.0.0.1:1/000000000000/runs",
    }
    record = {"messageId": "m", "receiptHandle": "h", "body": message.model_dump_json(), "eventSource": "aws:sqs"}
    ran = environment.run(
        environment.submit(),
        {"function": "run_worker", "event": {"Records": [record]}},
        environment.get("/readyz"),
        aws=False,
    )
    assert ran.statuses("runs_submit") == [503]
    assert "message returned" in ran.events()


def test_a_leak_is_detected(environment: Environment) -> None:
    """A canary in any channel is detected."""
    for form in (INPUT, b64encode(INPUT.encode()).decode(), INPUT.encode().hex(), f"x{environment.tenant.token}"):
        with pytest.raises(AssertionError):
            environment.assert_clean(f"before {form} after")
    environment.assert_clean(quote("nothing to see"))
