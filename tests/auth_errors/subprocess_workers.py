"""The outbox's publisher and consumer as processes: killed by test_kills.py, measured by bench/outbox.

Each stands for a function with its event source mapping: it receives up to ten messages, passes them to the use case,
and deletes the handled ones together at the end, so that after a kill all of them are delivered again.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from dpp.auth_errors.outbox import consume as consume_module
from dpp.auth_errors.outbox import publish as publish_module
from dpp.auth_errors.outbox.consume import ConsumeEffects, ConsumeOutcome, consume
from dpp.auth_errors.outbox.events import EVENT_TYPE_HEADER, EventType
from dpp.auth_errors.outbox.handlers import HANDLERS
from dpp.auth_errors.outbox.message import EventMessage
from dpp.auth_errors.outbox.publish import PublishEffects, Waker, publish
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.platform.aws.queue import MAX_BATCH, Queue
from dpp.platform.db import postgres
from dpp.platform.db.postgres import Database

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_WAIT_SECONDS = 1
_TICK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The timeouts of a publisher, a consumer and a message: 60, 60 and 900 s in production."""

    silent_seconds: int
    lease_seconds: int
    resend_seconds: int


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers that the processes use. Without `timeouts`, production's; `visibility_seconds` is the queues'."""

    database_url: str
    endpoint: str
    visibility_seconds: int = 120
    max_retries: int = 5
    timeouts: Timeouts | None = None

    def client(self) -> "SQSClient":
        """An SQS client without retries."""
        return boto3.client(
            "sqs",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def queue(self, name: str, client: "SQSClient | None" = None) -> Queue:
        """`events`, `wakes` or `dead-letters`."""
        found = client or self.client()
        return Queue(f"{self.endpoint}/000000000000/{name}", lambda: found)


type EffectsOf = Callable[[Servers, "SQSClient"], ConsumeEffects]


def consume_effects(servers: Servers, client: "SQSClient") -> ConsumeEffects:
    """The effects, as the consumer's wiring builds them."""
    return ConsumeEffects(
        Database(servers.database_url),
        servers.queue("dead-letters", client),
        Waker(servers.queue("wakes", client)),
        RetryPolicy(servers.max_retries),
        HANDLERS,
    )


def publisher(servers: Servers) -> None:
    """Publish when woken, and every two seconds instead of the schedule's minute."""
    _begin(servers)
    client = servers.client()
    wakes, starter, tick_at = servers.queue("wakes", client), os.getppid(), time.monotonic()
    effects = PublishEffects(
        Database(servers.database_url), servers.queue("events", client), RetryPolicy(servers.max_retries)
    )
    while os.getppid() == starter:
        woken = wakes.receive(
            at_most=MAX_BATCH, invisible_seconds=servers.visibility_seconds, wait_seconds=_WAIT_SECONDS
        )
        scheduled = time.monotonic() >= tick_at
        if woken or scheduled:
            publish(effects, scheduled=scheduled)
        if scheduled:
            tick_at = time.monotonic() + _TICK_SECONDS
        _delete(client, wakes, [one.receipt_handle for one in woken])


def consumer(servers: Servers, effects_of: EffectsOf = consume_effects, log: Path | None = None) -> None:
    """Consume. `log` gets a line for each analysed error: its id, and the time right after its commit."""
    _begin(servers)
    client = servers.client()
    events, starter, effects = servers.queue("events", client), os.getppid(), effects_of(servers, client)
    while os.getppid() == starter:
        done, analysed = [], []
        for received in events.receive(
            at_most=MAX_BATCH, invisible_seconds=servers.visibility_seconds, wait_seconds=_WAIT_SECONDS
        ):
            consumed = consume(EventMessage(received.body, received.attributes), effects)
            if log and consumed.outcome is ConsumeOutcome.HANDLED:
                analysed.append((received.attributes, received.body, time.time()))
            if consumed.return_in_seconds is None:
                done.append(received.receipt_handle)
            else:
                events.extend_visibility(received.receipt_handle, consumed.return_in_seconds)
        _delete(client, events, done)
        if log:
            _note(log, analysed)


def _begin(servers: Servers) -> None:
    """Prepare for a busy machine: connecting may take long, and takeovers must not wait for minutes."""
    vars(postgres)["_CONNECT_TIMEOUT_SECONDS"] = 20
    if (timeouts := servers.timeouts) is not None:
        vars(publish_module)["SILENT_SECONDS"] = timeouts.silent_seconds
        vars(publish_module)["RESEND_SECONDS"] = timeouts.resend_seconds
        vars(consume_module)["LEASE_SECONDS"] = timeouts.lease_seconds


def _delete(client: "SQSClient", queue: Queue, receipt_handles: Sequence[str]) -> None:
    if receipt_handles:
        entries: list[Any] = [
            {"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(receipt_handles)
        ]
        client.delete_message_batch(QueueUrl=queue.url, Entries=entries)


def _note(log: Path, analysed: Sequence[tuple[Any, str, float]]) -> None:
    lines = [
        f"{json.loads(body)['authErrorId']} {at}\n"
        for attributes, body, at in analysed
        if attributes[EVENT_TYPE_HEADER] == EventType.ANALYSIS_REQUESTED
    ]
    with log.open("a", encoding="utf-8") as file:
        file.write("".join(lines))
