"""Calls the API of authentication errors in this process: services report, operators decide."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import boto3
import pytest

from dpp.auth_errors import store
from dpp.auth_errors.outbox.consume import ConsumeEffects, consume
from dpp.auth_errors.outbox.events import HEADERS
from dpp.auth_errors.outbox.message import EventMessage
from dpp.auth_errors.outbox.publish import PublishEffects, Waker, publish
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp_cli.docs.openapi.examples import AUTH_ERRORS
from tests.support.api import Answer
from tests.support.function_client import FunctionClient
from tests.support.stored import Stored, existing
from tests.support.world import World

TRACE = (
    "java.lang.IllegalStateException: no session\n\tat com.acme.Auth.login(Auth.java:42)\n"
    "\tat com.acme.Web.handle(Web.java:7)"
)


def a_report(**changes: Any) -> dict[str, Any]:
    """A valid body of POST /api/auth-errors; a field set to `...` is omitted."""
    body: dict[str, Any] = {
        "requestId": f"req-{uuid4()}",
        "occurredAt": "2026-02-13T09:30:00+09:00",
        "httpStatus": 401,
        "exceptionClass": "java.lang.IllegalStateException",
        "stacktrace": TRACE,
    }
    return {name: value for name, value in (body | changes).items() if value is not ...}


@dataclass(frozen=True, slots=True)
class Queues:
    """The three queues of events, in moto."""

    events: str
    dead_letters: str
    wake: str

    @classmethod
    def made(cls) -> "Queues":
        sqs = boto3.client("sqs")
        urls = [sqs.create_queue(QueueName=f"{name}-{uuid4().hex}")["QueueUrl"] for name in ("events", "dead", "wake")]
        return cls(*urls)

    def waiting(self, url: str) -> list[dict[str, Any]]:
        """Receive and delete every message of a queue."""
        sqs, found = boto3.client("sqs"), list[dict[str, Any]]()
        while batch := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]).get(
            "Messages"
        ):
            found += [dict(message) for message in batch]
            for message in batch:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found


class AuthErrorsApi(FunctionClient):
    """A client with keys of a tenant and of the operator kim; `environ` is the function's environment."""

    def __init__(self, database: Database, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__("auth_errors_api", database, environ, monkeypatch)
        self.tenant_id = f"t_{uuid4().hex[:12]}"
        self.tenant = self.key_of(self.tenant_id)
        self.operator = self.operator_key()

    @classmethod
    @contextmanager
    def of_world(cls, world: World, monkeypatch: pytest.MonkeyPatch) -> "Iterator[AuthErrorsApi]":
        """A client of a world, with its own wake queue."""
        environ = world.environ() | {"DPP_AUTH_ERROR_WAKE_QUEUE_URL": Queues.made().wake}
        with closing(cls(world.database, environ, monkeypatch)) as client:
            yield client

    def report(self, body: object = None, *, token: str | None = None, raw: str | bytes | None = None) -> Answer:
        """POST /api/auth-errors with the tenant's key."""
        text = raw if raw is not None else json.dumps(a_report() if body is None else body)
        return self.call("POST", "/api/auth-errors", token=token or self.tenant, body=text)

    def reported(self, **changes: Any) -> str:
        """Report an error and return its id."""
        answer = self.report(a_report(**changes))
        assert answer.status == 201, answer.text
        found: str = answer.body["authErrorId"]
        return found

    def ask(self, path: str = "", token: str | None = None, **query: str | list[str]) -> Answer:
        """GET /api/auth-errors… with the operator's key."""
        return self.call("GET", f"/api/auth-errors{path}", token=token or self.operator, query=query)

    def decide(self, path: str, body: object, token: str | None = None) -> Answer:
        """POST …/decisions with the operator's key."""
        return self.call(
            "POST", f"/api/auth-errors{path}/decisions", token=token or self.operator, body=json.dumps(body)
        )


@dataclass(frozen=True, slots=True)
class Machinery(Stored):
    """Publisher and consumer in this process."""

    database: Database
    queues: Queues
    policy: RetryPolicy = field(default_factory=RetryPolicy)

    def publish(self, now: datetime | None = None) -> None:
        """Publish due events."""
        publish(PublishEffects(self.database, Queue(self.queues.events), self.policy), now)

    def consume(self, now: datetime | None = None, **handlers: Any) -> list[str]:
        """Consume the queue's messages and return the outcomes. `handlers` replace the defaults, by event type name."""
        effects = ConsumeEffects.of(self.database, Queue(self.queues.dead_letters), Waker(None), self.policy)
        mine = dict(effects.handlers) | {
            kind: handlers[kind.name] for kind in effects.handlers if kind.name in handlers
        }
        effects = ConsumeEffects(effects.database, effects.dead_letters, effects.waker, effects.policy, mine)
        ended = []
        for sent in self.queues.waiting(self.queues.events):
            attributes = sent["MessageAttributes"]
            headers = {name: attributes[name]["StringValue"] for name in HEADERS}
            ended.append(consume(EventMessage(sent["Body"], headers), effects, now).outcome.value)
        return ended

    def run(self, now: datetime | None = None) -> None:
        """Analyse every error."""
        for _ in range(2):
            self.publish(now)
            self.consume(now)

    def clusters_of(self, auth_error_id: str) -> list[UUID]:
        statement = "SELECT cluster_id FROM auth_error_cluster_item WHERE auth_error_id = %s"
        return [cluster_id for (cluster_id,) in self.sql(statement, (auth_error_id,))]


def insert_example_rows(client: AuthErrorsApi) -> None:
    """Insert the error and the cluster that the OpenAPI examples name."""
    client.reported(requestId="to-be-copied")
    with client.database.connection() as connection, connection.transaction():
        connection.execute("CREATE TEMP TABLE copy ON COMMIT DROP AS SELECT * FROM auth_error")
        connection.execute("UPDATE copy SET auth_error_id = %s, dedup_key = 'own'", (AUTH_ERRORS["auth_error_id"],))
        columns = ", ".join(
            row[0]
            for row in connection.execute(
                "SELECT column_name FROM information_schema.columns"
                " WHERE table_name = 'auth_error' AND column_name <> 'sequence'"
            )
        )
        insert = f"INSERT INTO auth_error ({columns}) SELECT {columns} FROM copy"
        connection.execute(insert.encode())
        store.request_analysis(connection, UUID(AUTH_ERRORS["auth_error_id"]), "PLATFORM/CONSUMER")
        own = existing(store.complete_analysis(connection, UUID(AUTH_ERRORS["auth_error_id"]), "PLATFORM/CONSUMER"))
        store.join_cluster(connection, own, UUID(AUTH_ERRORS["cluster_id"]), "v1", "0" * 64)
