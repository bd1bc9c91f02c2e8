"""Publisher and consumer as Lambda calls them, with SQS in moto (AUTH-4, AUTH-5, AUTH-7, AUTH-8)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID, uuid4

import boto3
import pytest

import auth_errors_consume.handler as consumer
import auth_errors_publish.handler as publisher
from auth_errors_consume.handler import wiring as consumer_wiring
from auth_errors_publish.handler import wiring as publisher_wiring
from dpp.auth_errors.config import RetrySettings, check_outbox_days
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import on_recorded
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.aws.queue import Queue
from dpp.platform.config import ConfigurationError
from tests.auth_errors.environment import Environment, reasons
from tests.support.api import lambda_context
from tests.support.memory_sqs import Message


@dataclass(slots=True)
class Queues:
    sqs: Any
    events: str
    dead_letters: str
    wake: str

    def received(self, url: str) -> list[Any]:
        """Receive a queue's messages, hidden for ten minutes afterwards."""
        found = self.sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=600, MessageAttributeNames=["All"]
        )
        return list(found.get("Messages", []))

    def dead_letter_reasons(self) -> list[str]:
        found = self.received(self.dead_letters)
        return reasons([Message(one["Body"], one["MessageAttributes"]) for one in found])


@pytest.fixture
def queues(env: Environment, aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queues]:
    """New queues, with both functions wired to them."""
    sqs: Any = boto3.client("sqs")
    urls = [sqs.create_queue(QueueName=f"q-{uuid4().hex}")["QueueUrl"] for _ in range(3)]
    found = Queues(sqs, *urls)
    environ = {
        "DATABASE_URL": env.url,
        "DPP_AUTH_ERROR_QUEUE_URL": found.events,
        "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": found.dead_letters,
        "DPP_AUTH_ERROR_WAKE_QUEUE_URL": found.wake,
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    consumer_wiring.cache_clear()
    publisher_wiring.cache_clear()
    yield found
    consumer_wiring()[0].database.close()
    publisher_wiring().database.close()
    consumer_wiring.cache_clear()
    publisher_wiring.cache_clear()


def _publish(body: str = "wake") -> Any:
    return publisher.handler({"Records": [{"body": body}]}, lambda_context())


def _consume(messages: list[Any]) -> list[str]:
    """The ids of messages that will be delivered again."""
    records = [
        {
            "messageId": one["MessageId"],
            "receiptHandle": one["ReceiptHandle"],
            "body": one["Body"],
            "attributes": {"ApproximateReceiveCount": "1"},
            "messageAttributes": {
                name: {"stringValue": value["StringValue"], "dataType": "String"}
                for name, value in one.get("MessageAttributes", {}).items()
            },
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:events",
            "awsRegion": "us-east-1",
        }
        for one in messages
    ]
    answer: Any = consumer.handler({"Records": records}, lambda_context())
    return [one["itemIdentifier"] for one in answer["batchItemFailures"]]


def _post(env: Environment, count: int) -> list[UUID]:
    return [env.post() for _ in range(count)]


def test_report_is_published_and_analysed(env: Environment, queues: Queues) -> None:
    ids = _post(env, 3)
    assert _publish()["published"] == 3
    assert _consume(queues.received(queues.events)) == []
    assert len(queues.received(queues.wake)) == 3
    assert _publish()["published"] == 3
    assert _consume(queues.received(queues.events)) == []
    assert {env.status(one) for one in ids} == {"ANALYSIS_COMPLETED"}


def test_poison_messages_do_not_affect_others(
    env: Environment, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch whose first message is malformed, and whose second one fails in its handler."""
    ids = _post(env, 4)
    _publish()
    first, second, *others = queues.received(queues.events)
    first["Body"] = "{"
    poisoned = json.loads(second["Body"])["authErrorId"]

    def fails_on_one(connection: Any, error: Any, now: Any) -> Any:
        if str(error.auth_error_id) == poisoned:
            raise ZeroDivisionError
        return on_recorded(connection, error, now)

    _handle_with(monkeypatch, fails_on_one)
    assert _consume([first, second, *others]) == [second["MessageId"]]
    assert queues.dead_letter_reasons() == ["BAD_JSON"]
    statuses = {str(one): env.status(one) for one in ids}
    assert statuses[poisoned] == "RETRY"
    assert sorted(statuses.values()) == ["ANALYSIS_REQUESTED", "ANALYSIS_REQUESTED", "NEW", "RETRY"]


def test_failed_message_is_hidden_until_its_retry(
    env: Environment, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    (auth_error_id,) = _post(env, 1)
    _publish()
    (message,) = queues.received(queues.events)
    hidden: list[int] = []

    def hide(_queue: Queue, _handle: str, seconds: int) -> None:
        hidden.append(seconds)

    monkeypatch.setattr(Queue, "extend_visibility", hide)

    def fails(*_: object) -> Any:
        raise ZeroDivisionError

    _handle_with(monkeypatch, fails)
    assert _consume([message]) == [message["MessageId"]]
    assert hidden == [10]
    assert env.status(auth_error_id) == "RETRY"


def _handle_with(monkeypatch: pytest.MonkeyPatch, handler: Any) -> None:
    monkeypatch.setitem(cast(Any, consumer_wiring()[0].handlers), EventType.RECORDED, handler)


def test_wake_publishes_and_tick_sends_lost_messages_again(
    env: Environment, queues: Queues, capsys: pytest.CaptureFixture[str]
) -> None:
    _post(env, 1)
    _publish()
    assert "OutboxLag" not in capsys.readouterr().out
    _publish('{"source": "aws.events"}')
    logged = capsys.readouterr().out
    assert "OutboxLag" in logged
    assert "EventsDead" in logged
    assert "Firings" in logged
    answer: Any = publisher.handler({}, lambda_context())
    assert answer["batchItemFailures"] == []
    assert "Firings" in capsys.readouterr().out


def test_logs_hold_no_text_of_a_service(env: Environment, queues: Queues, capsys: pytest.CaptureFixture[str]) -> None:
    env.post(exception_message="a secret word", stacktrace="at secret.Word(S.java:1)", request_path="/secret")
    for _ in range(2):
        _publish("tick")
        _consume(queues.received(queues.events))
    assert "secret" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("days", "retries", "fits"),
    [(23, 5, True), (22, 5, False), (1, 5, False), (30, 5, True), (22, 100, False), (23, 100, True)],
)
def test_retention_below_the_redelivery_window_is_rejected(days: int, retries: int, fits: bool) -> None:
    """AUTH-5: the redelivery window is twice in the queue, once in the DLQ, and every retry."""
    if fits:
        check_outbox_days(days, retries)
    else:
        with pytest.raises(ConfigurationError, match=f"DPP_RETENTION: outbox_days is {days}, "):
            check_outbox_days(days, retries)


def test_default_retention_and_retries() -> None:
    assert Retention().outbox_days == 30
    assert RetrySettings.load({}).policy.max_retries == 5
