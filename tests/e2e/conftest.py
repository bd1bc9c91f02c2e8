"""The deployed stack, reached as clients reach it: over HTTP. `make e2e` brings it up; `make up` will do, too."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import httpx
import jsonschema
import psycopg
import pytest

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import create_tenant
from dpp.money.ledger import Ledger
from dpp.platform.keys import api_keys
from dpp.platform.keys.api_keys import Caller
from dpp_cli.local.localstack import client_environment
from dpp_cli.local.state import StackState, running_state
from tests.support.world import give_credit

OPENAPI = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text(encoding="utf-8"))
TERMINAL = {"COMPLETED", "FAILED", "EXPIRED"}
POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class E2eTenant:
    """A tenant of the deployed stack."""

    tenant_id: str
    token: str
    caller: Caller


class Platform:
    """The deployed API. Every answer is checked against the committed OpenAPI document."""

    def __init__(self, state: StackState) -> None:
        self.state = state
        self.http = httpx.Client(base_url=state.api_base_url, timeout=30, trust_env=False)
        self.database = psycopg.connect(state.database_url, autocommit=True)
        self.ledger = Ledger.connect(state.redis_url)

    def close(self) -> None:
        """Hang up."""
        self.http.close()
        self.database.close()
        self.ledger.client.close()

    def tenant(self, credit_usd_micros: int = 10_000_000, rate_limit_per_minute: int = 100_000) -> E2eTenant:
        """A new tenant with money and a key, as an operator makes one."""
        tenant_id = f"e2e_{uuid4().hex[:12]}"
        minted = api_keys.mint()
        create_tenant(self.database, tenant_id, "End to end", rate_limit_per_minute)
        api_keys.store(self.database, minted, tenant_id)
        if credit_usd_micros:
            give_credit(self.database, self.ledger, tenant_id, credit_usd_micros)
        return E2eTenant(tenant_id, minted.token, Caller(tenant_id, minted.key_id, rate_limit_per_minute))

    def submit(self, tenant: E2eTenant | None, body: object, **headers: str) -> httpx.Response:
        """POST /v1/runs."""
        sent = {"Idempotency-Key": f"key-{uuid4()}"} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.call("POST", "/v1/runs", tenant, headers=sent, json=body)

    def read(self, tenant: E2eTenant | None, run_id: str) -> httpx.Response:
        """GET /v1/runs/{run_id}."""
        return self.call("GET", f"/v1/runs/{run_id}", tenant)

    def call(self, method: str, path: str, tenant: E2eTenant | None = None, **options: Any) -> httpx.Response:
        """Any call; checked against the document."""
        headers = dict(options.pop("headers", {}))
        if tenant is not None:
            headers["Authorization"] = f"Bearer {tenant.token}"
        answer = self.http.request(method, path, headers=headers, **options)
        check_against_openapi(method, path, answer)
        return answer

    def finished(self, tenant: E2eTenant, run_id: str, within_seconds: float = 60) -> Mapping[str, Any]:
        """Poll a run to its end, as a client does."""
        deadline = time.monotonic() + within_seconds
        while time.monotonic() < deadline:
            view: Mapping[str, Any] = self.read(tenant, run_id).json()
            if view["status"] in TERMINAL:
                return view
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"run {run_id} was still {view['status']} after {within_seconds} s")

    def aws(self, service: str) -> Any:
        """A client of the stack's AWS."""
        keys = client_environment(self.state.aws_endpoint_url)
        session: Any = boto3.Session(
            keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], region_name=keys["AWS_REGION"]
        )
        return session.client(service, endpoint_url=self.state.aws_endpoint_url)

    def position(self, tenant: E2eTenant) -> LedgerPosition:
        """The tenant's books."""
        return audit_tenant(self.database, self.ledger, tenant.tenant_id)


def check_against_openapi(method: str, path: str, answer: httpx.Response) -> None:
    """The answer's status must be documented for its route, and its body must fit the documented schema."""
    route = _documented(path.partition("?")[0])
    operation = OPENAPI["paths"].get(route, {}).get(method.lower())
    if operation is None:
        return
    documented = operation["responses"]
    assert str(answer.status_code) in documented, f"{answer.status_code} of {method} {route} isn't documented"
    content = documented[str(answer.status_code)].get("content", {})
    if not content:
        assert answer.content == b""
        return
    media_type = answer.headers["Content-Type"].partition(";")[0]
    assert media_type in content, f"{media_type} isn't documented for {answer.status_code}"
    schema = {**content[media_type]["schema"], "components": OPENAPI["components"]}
    body = answer.json() if media_type.endswith("json") else answer.text
    jsonschema.Draft202012Validator(schema).validate(body)


def _documented(path: str) -> str:
    """The route of the document that a path is: the one that is written so, else the first that it fits."""
    if path in OPENAPI["paths"]:
        return path
    for route in OPENAPI["paths"]:
        if re.fullmatch(re.sub(r"\{[^/}]+\}", "[^/]+", route), path):
            return str(route)
    return path


@pytest.fixture(scope="session")
def platform() -> Iterator[Platform]:
    """The deployed stack; an error that says what to do where it isn't up."""
    with closing(Platform(running_state())) as opened:
        yield opened
