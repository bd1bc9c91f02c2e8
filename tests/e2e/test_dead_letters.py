"""A message that nobody can work on, from the run queue to the dead letters to the operator (RUN-15)."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from dpp.runs.message import RunMessage
from dpp_cli.main import app
from tests.e2e.conftest import Platform
from tests.e2e.test_schedules import left_behind

pytestmark = pytest.mark.e2e

ARRIVES_WITHIN_SECONDS = 90


def dlq(*words: str) -> Any:
    """`dpp dlq … --json`; what it prints."""
    result = CliRunner().invoke(app, ["dlq", *words, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.fixture
def sqs(platform: Platform) -> Any:
    """A client of the local stack's queues."""
    return platform.aws("sqs")


@pytest.fixture
def impatient_queue(platform: Platform, sqs: Any) -> Iterator[str]:
    """The run queue, showing a failed message again after a second instead of two minutes."""
    url = platform.state.outputs["RunQueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
    try:
        yield url
    finally:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "120"})


def test_run_15_poison_ends_among_the_dead_letters_where_an_operator_sees_and_drops_it(
    platform: Platform, sqs: Any, impatient_queue: str
) -> None:
    """RUN-15: the worker can't read it, three times; then it troubles nobody."""
    message_id = sqs.send_message(QueueUrl=impatient_queue, MessageBody='{"poison": true}')["MessageId"]
    deadline = time.monotonic() + ARRIVES_WITHIN_SECONDS
    while not (found := [one for one in dlq("list") if one["message_id"] == message_id]):
        assert time.monotonic() < deadline, "the message never came"
    (letter,) = found
    assert (letter["state"], letter["fault"], letter["run_id"]) == ("UNREADABLE", "run_id: missing", None)
    assert letter["receive_count"] >= 3
    assert [one["action"] for one in dlq("drop", message_id, "--yes")] == ["DELETED"]
    assert message_id not in {one["message_id"] for one in dlq("list")}


def test_run_15_a_dropped_run_tells_its_client_at_once_and_costs_nothing(platform: Platform, sqs: Any) -> None:
    """RUN-15, RUN-21: QUEUED, its message dead; no client waits for the sweeper's hour."""
    tenant = platform.tenant()
    dropped, sent_back = (left_behind(platform, tenant, age=timedelta(seconds=5), sent=True) for _ in range(2))
    for run in (dropped, sent_back):
        body = RunMessage.of(run, run.created_at).model_dump_json()
        sqs.send_message(QueueUrl=platform.state.outputs["RunDeadLetterQueueUrl"], MessageBody=body)
    assert [one["action"] for one in dlq("drop", dropped.id, "--yes")] == ["RUN_ENDED"]
    view = platform.read(tenant, dropped.id).json()
    assert (view["status"], view["money_state"]) == ("FAILED", "REFUNDED")
    assert view["problem"]["reason_code"] == "MESSAGE_DROPPED"
    assert view["cost"]["used_usd"] == "0.0000"
    assert [one["action"] for one in dlq("redrive", sent_back.id)] == ["SENT_BACK"]
    assert platform.finished(tenant, sent_back.id)["status"] == "COMPLETED"
    assert platform.position(tenant).balanced
