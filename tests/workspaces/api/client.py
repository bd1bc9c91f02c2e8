"""Calls the API of workspaces in this process, over real Postgres and in-memory queues."""

import json
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp_cli.docs.openapi.examples import WORKSPACES
from tests.support.api import Answer
from tests.support.function_client import FunctionClient
from tests.support.memory_sqs import MemorySqs
from tests.workspaces.environment import LOOKS, STRANGER, TENANT, Environment
from workspaces_api import handler as handler_module

ROOT = "/v1/workspaces"
YEAR_SECONDS = 365 * 24 * 3600
AN_ID = "fd4888b3-0000-4000-8000-00000000beef"
OF_ONE = [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/connect")]
ROUTES = [("POST", ""), ("GET", ""), *((method, f"/{AN_ID}{below}") for method, below in OF_ONE)]


class WorkspacesApi(FunctionClient):
    """A client with the keys of two tenants, the owner and a stranger; calls are the owner's by default."""

    def __init__(
        self, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, sqs: MemorySqs | None = None
    ) -> None:
        self.sqs = sqs or MemorySqs()
        monkeypatch.setattr(handler_module, "Queue", lambda url: Queue(url, lambda: cast(Any, self.sqs)))
        environ = {"DATABASE_URL": database_url, "DPP_WORKSPACE_LOOK_QUEUE_URL": LOOKS}
        super().__init__("workspaces_api", database, environ, monkeypatch)
        self.owner = self.key_of(TENANT)
        self.stranger = self.key_of(STRANGER)

    def create(
        self, body: object = None, *, key: str | None = None, raw: str | bytes | None = None, token: str | None = None
    ) -> Answer:
        """POST /v1/workspaces, with a new key unless one is given."""
        text = raw if raw is not None else json.dumps({"name": "home"} if body is None else body)
        headers = {"Idempotency-Key": key or f"key-{uuid4()}"}
        return self.call("POST", token=token, headers=headers, body=text)

    def created(self, **more: Any) -> str:
        """Create a workspace, and return its id."""
        answer = self.create({"name": "home"} | more)
        assert answer.status == 201, answer.text
        found: str = answer.body["workspace_id"]
        return found

    def pages(self, token: str | None = None, **query: str | list[str]) -> Answer:
        """GET /v1/workspaces."""
        return self.call("GET", token=token, query=query)

    def read(self, workspace_id: str | UUID, token: str | None = None) -> Answer:
        """GET /v1/workspaces/{workspace_id}."""
        return self.call("GET", f"/{workspace_id}", token=token)

    def change(
        self, workspace_id: str | UUID, body: object = None, *, raw: str | None = None, token: str | None = None
    ) -> Answer:
        """PATCH /v1/workspaces/{workspace_id}."""
        text = raw if raw is not None else json.dumps(body)
        return self.call("PATCH", f"/{workspace_id}", token=token, body=text)

    def delete(self, workspace_id: str | UUID, token: str | None = None) -> Answer:
        """DELETE /v1/workspaces/{workspace_id}."""
        return self.call("DELETE", f"/{workspace_id}", token=token)

    def events(self, workspace_id: str | UUID, token: str | None = None) -> Answer:
        """GET /v1/workspaces/{workspace_id}/events."""
        return self.call("GET", f"/{workspace_id}/events", token=token)

    def connect(self, workspace_id: str | UUID, token: str | None = None) -> Answer:
        """POST /v1/workspaces/{workspace_id}/connect."""
        return self.call("POST", f"/{workspace_id}/connect", token=token)

    def call(self, method: str, path: str = "", *, token: str | None = None, **sent: Any) -> Answer:
        """Make any call below the root. A token of "" sends no key."""
        return super().call(method, ROOT + path, token=self.owner if token is None else token, **sent)

    def forget_hints(self) -> None:
        """Drop the hints that were sent so far."""
        self.sqs.clear(LOOKS)

    @property
    def hinted(self) -> list[str]:
        """The workspaces for which hints were sent since the last call; forgets them."""
        found = [json.loads(one.body)["look"] for one in self.sqs.of(LOOKS)]
        self.sqs.clear(LOOKS)
        return found


def create_example_workspace(client: WorkspacesApi) -> None:
    """Create the workspace of the document's examples, for the owner."""
    copied = client.created()
    with client.database.connection() as connection, connection.transaction():
        connection.execute("CREATE TEMP TABLE copy ON COMMIT DROP AS SELECT * FROM workspaces")
        connection.execute("DELETE FROM copy WHERE workspace_id <> %s", (copied,))
        connection.execute(
            "UPDATE copy SET workspace_id = %s, request_key = 'the-example'", (WORKSPACES["workspace_id"],)
        )
        connection.execute("GRANT SELECT ON copy TO dpp_workspace_api")
        connection.execute("SET LOCAL ROLE dpp_workspace_api")
        columns = (
            "workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by,"
            " standby_ttl_seconds, archive_ttl_seconds, last_access_at"
        )
        connection.execute(f"INSERT INTO workspaces ({columns}) SELECT {columns} FROM copy".encode())


def refused(answer: Answer, status: int, reason_code: str) -> dict[str, Any]:
    """Check the problem document of an answer, and return it."""
    body: dict[str, Any] = answer.body
    assert (answer.status, body.get("reason_code")) == (status, reason_code), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert body["type"] == f"urn:dpp:problem:{reason_code.lower().replace('_', '-')}"
    assert body["trace_id"] == answer.headers["X-Trace-Id"]
    assert None not in body.values()
    return body


def pointers(answer: Answer) -> list[str]:
    """The pointers of a validation problem."""
    return [fault["pointer"] for fault in refused(answer, 422, "VALIDATION_FAILED")["errors"]]


def without_ids(answer: Answer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """An answer without what differs in every answer: the trace id and the path."""
    headers = {name: value for name, value in answer.headers.items() if name != "X-Trace-Id"}
    return answer.status, headers, {k: v for k, v in answer.body.items() if k not in {"trace_id", "instance"}}


def under_way(client: WorkspacesApi, env: Environment) -> str:
    """A workspace whose PROVISIONING is under way: its long work is not done."""
    found = client.created()
    env.observe(UUID(found), does_long_work=False)
    body = client.read(found).body
    assert (body["phase"], body["operation"]) == ("PENDING", "PROVISIONING")
    return found
