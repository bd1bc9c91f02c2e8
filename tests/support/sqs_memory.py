"""SQS's client as far as a queue of ours calls it, in memory: messages come at least once, in any order, hidden for a
while once they were received. Time passes when a test says so."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from botocore.exceptions import EndpointConnectionError


@dataclass(slots=True)
class Kept:
    """One message of a queue."""

    body: str
    attributes: dict[str, Any]
    visible_at: float = 0.0
    receives: int = 0
    message_id: str = field(default_factory=lambda: uuid4().hex)


class MemorySqs:
    """All queues of a test, by their URLs."""

    exceptions = SimpleNamespace()

    def __init__(self) -> None:
        self.queues: dict[str, list[Kept]] = {}
        self.seconds = 0.0
        self.is_away = False
        self.refused: dict[str, str] = {}
        """Bodies that are refused alone, by what is in them."""

    def of(self, url: str) -> list[Kept]:
        """A queue's messages, hidden ones too."""
        return self.queues.setdefault(url, [])

    def send_message(
        self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any = None, DelaySeconds: int = 0
    ) -> dict[str, Any]:
        """Take a message, and hide it for its delay."""
        self._answer(QueueUrl)
        assert 0 <= DelaySeconds <= 900
        shown_at = self.seconds + DelaySeconds
        self.of(QueueUrl).append(Kept(MessageBody, dict(MessageAttributes or {}), shown_at))
        return {"MessageId": "x"}

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> dict[str, Any]:
        """Take messages, each alone."""
        self._answer(QueueUrl)
        assert 1 <= len(Entries) <= 10
        failed = []
        for entry in Entries:
            code = next((code for text, code in self.refused.items() if text in entry["MessageBody"]), None)
            if code is not None:
                failed.append({"Id": entry["Id"], "Code": code, "SenderFault": True})
            else:
                self.of(QueueUrl).append(Kept(entry["MessageBody"], dict(entry["MessageAttributes"])))
        return {"Failed": failed} if failed else {}

    def receive_message(
        self, *, QueueUrl: str, MaxNumberOfMessages: int, VisibilityTimeout: int, **_: Any
    ) -> dict[str, Any]:
        """Show what is visible, and hide it."""
        self._answer(QueueUrl)
        shown = [one for one in self.of(QueueUrl) if one.visible_at <= self.seconds][:MaxNumberOfMessages]
        for one in shown:
            one.visible_at = self.seconds + VisibilityTimeout
            one.receives += 1
        return {"Messages": [_as_received(one) for one in shown]} if shown else {}

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> None:
        """Forget a message."""
        self._answer(QueueUrl)
        self.queues[QueueUrl] = [one for one in self.of(QueueUrl) if one.message_id != ReceiptHandle]

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:
        """Hide a message until then."""
        self._answer(QueueUrl)
        for one in self.of(QueueUrl):
            if one.message_id == ReceiptHandle:
                one.visible_at = self.seconds + VisibilityTimeout

    def _answer(self, url: str) -> None:
        if self.is_away:
            raise EndpointConnectionError(endpoint_url=url)


def _as_received(one: Kept) -> dict[str, Any]:
    return {
        "MessageId": one.message_id,
        "ReceiptHandle": one.message_id,
        "Body": one.body,
        "MessageAttributes": one.attributes,
        "Attributes": {"ApproximateReceiveCount": str(one.receives), "SentTimestamp": "0"},
    }
