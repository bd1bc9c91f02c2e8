"""Calls the API of workspaces in this process, over real Postgres and queues in memory."""

import json
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from dpp.money.credits import create_tenant
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys
from dpp_cli.docs.openapi import workspace_examples as examples
from tests.support.api import Answer, gateway_event, lambda_context
from tests.support.sqs_memory import MemorySqs
from tests.workspaces.environment import LOOKS, STRANGER, TENANT
from workspaces_api import handler as handler_module
from workspaces_api.handler import handler, wiring

ROOT = "/v1/workspaces"


class WorkspacesApi:
    """A client with the keys of two tenants, the owner's and a stranger's; a call is the owner's unless it says so."""

    def __init__(
        self,
        database: Database,
        database_url: str,
        monkeypatch: pytest.MonkeyPatch,
        sqs: MemorySqs | None = None,
    ) -> None:
        self.database = database
        self.sqs = sqs or MemorySqs()
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(handler_module, "Queue", lambda url: Queue(url, lambda: cast(Any, self.sqs)))
        self.rewire(DATABASE_URL=database_url, DPP_WORKSPACE_LOOK_QUEUE_URL=LOOKS)
        self.owner = self.key_of(TENANT)
        self.stranger = self.key_of(STRANGER)

    def rewire(self, **environ: str) -> None:
        """Start the function anew, with this in its environment besides."""
        self.close()
        for name, value in environ.items():
            self._monkeypatch.setenv(name, value)

    def close(self) -> None:
        """Close what the function's wiring opened; the next call wires it anew."""
        if wiring.cache_info().currsize:
            wiring().database.close()
        wiring.cache_clear()

    def key_of(self, tenant_id: str) -> str:
        """A key of a tenant that is made if there is none."""
        minted = api_keys.mint()
        with self.database.connection() as connection:
            create_tenant(connection, tenant_id, "A tenant", 60)
            api_keys.store(connection, minted, tenant_id)
        return minted.token

    def create(
        self,
        body: object = None,
        *,
        key: str | None = None,
        raw: str | bytes | None = None,
        token: str | None = None,
    ) -> Answer:
        """POST /v1/workspaces under a key of its own, unless one is given."""
        text = raw if raw is not None else json.dumps({"name": "home"} if body is None else body)
        headers = {"Idempotency-Key": key or f"key-{uuid4()}"}
        return self.call("POST", token=token, headers=headers, body=text)

    def created(self, **more: Any) -> str:
        """A new workspace's id."""
        answer = self.create({"name": "home"} | more)
        assert answer.status == 201, answer.text
        found: str = answer.body["workspace_id"]
        return found

    def pages(self, token: str | None = None, **query: str | list[str]) -> Answer:
        """GET /v1/workspaces."""
        asked = {name: value if isinstance(value, list) else [value] for name, value in query.items()}
        return self.call("GET", token=token, query=asked)

    def read(self, workspace_id: str | UUID, token: str | None = None) -> Answer:
        """GET /v1/workspaces/{workspace_id}."""
        return self.call("GET", f"/{workspace_id}", token=token)

    def change(
        self,
        workspace_id: str | UUID,
        body: object = None,
        *,
        raw: str | None = None,
        token: str | None = None,
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

    def call(
        self,
        method: str,
        below: str = "",
        *,
        token: str | None = None,
        headers: Mapping[str, str | list[str]] | None = None,
        query: Mapping[str, list[str]] | None = None,
        body: str | bytes | None = None,
    ) -> Answer:
        """Any call below the root; a token of "" sends no key, a header given as a list is sent that many times."""
        values = {} if body is None else {"Content-Type": ["application/json"]}
        values |= {name: v if isinstance(v, list) else [v] for name, v in (headers or {}).items()}
        if token != "":
            values.setdefault("Authorization", [f"Bearer {token or self.owner}"])
        answer: Any = handler(gateway_event(method, ROOT + below, values, body, query), lambda_context())
        sent = {name: found[0] for name, found in answer["multiValueHeaders"].items()}
        return Answer(answer["statusCode"], sent, answer["body"])

    @property
    def hinted(self) -> list[str]:
        """The workspaces that looks were asked for, since this was asked last."""
        found = [json.loads(one.body)["look"] for one in self.sqs.of(LOOKS)]
        self.sqs.of(LOOKS).clear()
        return found


def the_documents_own(client: WorkspacesApi) -> None:
    """The workspace that the document's examples name, of the owner."""
    copied = client.created()
    with client.database.connection() as connection, connection.transaction():
        connection.execute("CREATE TEMP TABLE copy ON COMMIT DROP AS SELECT * FROM workspaces")
        connection.execute("DELETE FROM copy WHERE workspace_id <> %s", (copied,))
        connection.execute(
            "UPDATE copy SET workspace_id = %s, request_key = 'the-documents-own'", (examples.WORKSPACE_ID,)
        )
        connection.execute("GRANT SELECT ON copy TO dpp_workspace_api")
        connection.execute("SET LOCAL ROLE dpp_workspace_api")
        columns = (
            "workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by,"
            " standby_ttl_seconds, archive_ttl_seconds, last_access_at"
        )
        connection.execute(f"INSERT INTO workspaces ({columns}) SELECT {columns} FROM copy".encode())
