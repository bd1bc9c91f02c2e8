"""Calls the functions as API Gateway (REST, version 1) does, in this process."""

import base64
import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from tests.support.world import Tenant, World

_FUNCTIONS = ("runs_submit", "runs_read", "runs_mcp", "health")
_ACCEPTING = ("runs_submit", "runs_mcp")
_HANDLERS = {name: importlib.import_module(f"{name}.handler").handler for name in (*_FUNCTIONS, "api_docs")}
COST_HEADERS = ("X-DPP-Cost-Reserved", "X-DPP-Cost-Used", "X-DPP-Budget-Remaining", "X-DPP-Tokens-Consumed")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    def costs(self) -> tuple[str, ...]:
        """The four cost headers."""
        return tuple(self.headers[name] for name in COST_HEADERS)


class ApiClient:
    """A client with a tenant's key, wired to one world."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        # Kept here, since a test may replace a function's `wiring`.
        self._wirings = {name: importlib.import_module(f"{name}.handler").wiring for name in _FUNCTIONS}
        self.rewire(world.environ())

    def rewire(self, environ: Mapping[str, str]) -> None:
        """Start every function anew with this environment."""
        self.close()
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)

    def close(self) -> None:
        """Close what the functions' wirings opened; the next call wires them anew."""
        for function, wiring in self._wirings.items():
            if wiring.cache_info().currsize:
                parts = wiring()
                parts.database.close()
                (parts.redis if function == "health" else parts.ledger.client).close()
            wiring.cache_clear()
        for name in _ACCEPTING:
            importlib.import_module(f"{name}.handler").settings.cache_clear()

    def submit(
        self,
        tenant: Tenant | None,
        body: object,
        *,
        key: str | list[str] | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
        raw: str | bytes | None = None,
    ) -> Answer:
        """POST /v1/runs."""
        sent: dict[str, str | list[str]] = {"Content-Type": "application/json"}
        sent["Idempotency-Key"] = f"key-{uuid4()}" if key is None else key
        sent |= dict(headers or {})
        text = raw if raw is not None else json.dumps(body)
        return self.call("POST", "/v1/runs", tenant, headers=sent, body=text)

    def read(self, tenant: Tenant | None, run_id: str, headers: Mapping[str, str] | None = None) -> Answer:
        """GET /v1/runs/{run_id}."""
        return self.call("GET", f"/v1/runs/{run_id}", tenant, headers=headers or {})

    def call(
        self,
        method: str,
        path: str,
        tenant: Tenant | None = None,
        *,
        headers: Mapping[str, str | list[str]] | None = None,
        body: str | bytes | None = None,
    ) -> Answer:
        """Any call; a header given as a list is sent that many times, None of a tenant sends no key."""
        values = {k: v if isinstance(v, list) else [v] for k, v in (headers or {}).items() if v != []}
        if tenant is not None:
            values.setdefault("Authorization", [f"Bearer {tenant.token}"])
        event = gateway_event(method, path, values, body)
        answer = _HANDLERS[function_of(path)](event, lambda_context())
        sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], sent, answer["body"])


def gateway_event(
    method: str,
    path: str,
    headers: Mapping[str, list[str]],
    body: str | bytes | None,
    query: Mapping[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Return the event that API Gateway (REST, version 1) passes to a function."""
    run_id = path.removeprefix("/v1/runs/") if path.startswith("/v1/runs/") else None
    return {
        "resource": path,
        "path": path,
        "httpMethod": method,
        "headers": {name: found[-1] for name, found in headers.items()},
        "multiValueHeaders": headers,
        "queryStringParameters": {name: found[-1] for name, found in query.items() if found} if query else None,
        "multiValueQueryStringParameters": {name: found for name, found in query.items() if found} if query else None,
        "pathParameters": {"run_id": run_id} if run_id else None,
        "stageVariables": None,
        "requestContext": {"requestId": str(uuid4()), "stage": "test", "path": path},
        "body": base64.b64encode(body).decode() if isinstance(body, bytes) else body,
        "isBase64Encoded": isinstance(body, bytes),
    }


def lambda_context() -> Any:
    """Return the context that Lambda passes beside the event."""
    return SimpleNamespace(
        function_name="test",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:us-east-1:000000000000:function:test",
        aws_request_id=str(uuid4()),
        get_remaining_time_in_millis=lambda: 30_000,
    )


def a_body(**changes: Any) -> dict[str, Any]:
    """A valid body of POST /v1/runs."""
    body: dict[str, Any] = {
        "pack_type": "decision",
        "inputs": {"question": "What is the answer?"},
        "reservation": {"max_cost_usd": "0.2500"},
    }
    return body | changes


def function_of(path: str) -> str:
    """The function that the gateway sends a path to."""
    if path == "/v1/runs":
        return "runs_submit"
    if path == "/mcp":
        return "runs_mcp"
    if path in {"/openapi.json", "/docs"}:
        return "api_docs"
    return "runs_read" if path.startswith("/v1/runs/") else "health"
