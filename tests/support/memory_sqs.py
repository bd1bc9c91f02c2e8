"""An SQS client in memory, as far as `dpp.platform.aws.queue` uses one.

Standard queues, created at their first use: at-least-once delivery, visibility timeouts, receive counts, delays and a
dead-letter queue. A receipt handle of an earlier receive deletes nothing. `tests/support/test_memory_aws.py` holds it
to the same assertions as moto. `tests/support/sqs_server.py` serves it over HTTP.
"""

import hashlib
import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from botocore.exceptions import EndpointConnectionError

type Json = dict[str, Any]
_DEFAULT_VISIBILITY_SECONDS = 30
_MAX_DELAY_SECONDS = 900
_MAX_BATCH = 10


@dataclass(slots=True)
class Message:
    """One message of a queue; `visible_at` is by the queue's clock."""

    body: str
    attributes: Json = field(default_factory=dict)
    number: int = 0
    message_id: str = field(default_factory=lambda: str(uuid4()))
    sent_at_ms: int = field(default_factory=lambda: int(time.time() * 1_000))
    visible_at: float = 0.0
    receive_count: int = 0

    def received(self) -> Json:
        """The message in the answer to a receive."""
        return {
            "MessageId": self.message_id,
            "ReceiptHandle": f"{self.number}.{self.receive_count}",
            "Body": self.body,
            "MD5OfBody": _md5(self.body),
            "MessageAttributes": self.attributes,
            "Attributes": {"ApproximateReceiveCount": str(self.receive_count), "SentTimestamp": str(self.sent_at_ms)},
        }


@dataclass(slots=True)
class MemoryQueue:
    """Messages by number; the heap has an entry for each time that one becomes visible, and old entries are skipped."""

    clock: Callable[[], float]
    visibility_seconds: float = _DEFAULT_VISIBILITY_SECONDS
    dead_letters: "MemoryQueue | None" = None
    max_receives: int = 0
    messages: dict[int, Message] = field(default_factory=dict)
    sent: int = 0
    _heap: list[tuple[float, int]] = field(default_factory=list)

    def send(self, body: str, attributes: Json | None = None, delay_seconds: float = 0) -> Message:
        """Add a message that becomes visible after the delay."""
        self.sent += 1
        message = Message(body, dict(attributes or {}), self.sent)
        self.messages[message.number] = message
        self._show(message, delay_seconds)
        return message

    def receive(self, at_most: int, visibility_seconds: float | None = None) -> list[Message]:
        """Visible messages, hidden from now on for the visibility timeout."""
        hidden = self.visibility_seconds if visibility_seconds is None else visibility_seconds
        now, taken = self.clock(), list[Message]()
        while len(taken) < at_most and self._heap and self._heap[0][0] <= now:
            visible_at, number = heapq.heappop(self._heap)
            message = self.messages.get(number)
            if message is None or message.visible_at != visible_at or message in taken:
                continue
            if self.dead_letters is not None and message.receive_count >= self.max_receives:
                self.dead_letters.send(self.messages.pop(number).body, message.attributes)
                continue
            message.receive_count += 1
            taken.append(message)
        for message in taken:
            self._show(message, hidden)
        return taken

    def delete(self, receipt_handle: str) -> None:
        """Delete the message, unless it was received again since."""
        if (message := self._held(receipt_handle)) is not None:
            del self.messages[message.number]

    def change_visibility(self, receipt_handle: str, seconds: float) -> None:
        """Make the message visible in so many seconds, unless it was received again since."""
        if (message := self._held(receipt_handle)) is not None:
            self._show(message, seconds)

    def fill(self, messages: Iterable[Message]) -> None:
        """Replace all messages by copies of these."""
        self.messages = {one.number: replace(one) for one in messages}
        self._heap = [(one.visible_at, one.number) for one in self.messages.values()]
        heapq.heapify(self._heap)

    def lose(self, message: Message) -> None:
        """Forget a message, as SQS must not."""
        del self.messages[message.number]

    def duplicate(self, message: Message) -> None:
        """Deliver a message once more, as SQS may."""
        self.sent += 1
        copy = replace(message, number=self.sent, message_id=str(uuid4()))
        self.messages[copy.number] = copy
        heapq.heappush(self._heap, (copy.visible_at, copy.number))

    def next_visible_at(self) -> float | None:
        """The earliest time at which a message may become visible."""
        return self._heap[0][0] if self._heap else None

    def counts(self) -> Json:
        """Attributes of the queue."""
        now = self.clock()
        visible = sum(one.visible_at <= now for one in self.messages.values())
        delayed = sum(one.visible_at > now and not one.receive_count for one in self.messages.values())
        return {
            "QueueArn": "arn",
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(len(self.messages) - visible - delayed),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
        }

    def _held(self, receipt_handle: str) -> Message | None:
        number, _, count = receipt_handle.partition(".")
        message = self.messages.get(int(number))
        return message if message is not None and message.receive_count == int(count) else None

    def _show(self, message: Message, in_seconds: float) -> None:
        message.visible_at = self.clock() + in_seconds
        heapq.heappush(self._heap, (message.visible_at, message.number))


class MemorySqs:
    """A client; `clock` is the queues' time, which a test may move.

    `is_away`: no call gets through. `refused`: error codes of single entries of a batch, by a text in their body.
    """

    exceptions = SimpleNamespace()

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.queues = defaultdict[str, MemoryQueue](lambda: MemoryQueue(clock))
        self.is_away = False
        self.refused: dict[str, str] = {}

    def of(self, url: str) -> list[Message]:
        """All messages of a queue, hidden ones too."""
        return list(self._queue(url).messages.values())

    def clear(self, url: str | None = None) -> None:
        """Delete all messages of a queue, or of all queues."""
        for queue in self.queues.values() if url is None else [self.queues[url]]:
            queue.messages.clear()

    def saved(self) -> dict[str, list[Message]]:
        """Copies of all messages, for `restore`."""
        return {url: [replace(one) for one in self.of(url)] for url in self.queues}

    def restore(self, saved: Mapping[str, list[Message]]) -> None:
        """Bring all queues back to what was saved."""
        for url, queue in self.queues.items():
            queue.fill(saved.get(url, ()))

    def create_queue(self, *, QueueName: str, Attributes: Json | None = None) -> Json:
        """Create a queue with its visibility timeout."""
        url = f"http://sqs.memory/{QueueName}"
        seconds = (Attributes or {}).get("VisibilityTimeout", _DEFAULT_VISIBILITY_SECONDS)
        self.queues[url].visibility_seconds = float(seconds)
        return {"QueueUrl": url}

    def redrive(self, url: str, dead_letters_url: str, max_receives: int) -> None:
        """Move messages that were received so often to a dead-letter queue."""
        queue = self.queues[url]
        queue.dead_letters, queue.max_receives = self.queues[dead_letters_url], max_receives

    def send_message(
        self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any = None, DelaySeconds: int = 0
    ) -> Json:
        """Add a message."""
        self._answer(QueueUrl)
        assert 0 <= DelaySeconds <= _MAX_DELAY_SECONDS
        sent = self._queue(QueueUrl).send(MessageBody, MessageAttributes, DelaySeconds)
        return {"MessageId": sent.message_id, "MD5OfMessageBody": _md5(MessageBody)}

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Json:
        """Add messages, each by itself."""
        self._answer(QueueUrl)
        assert 1 <= len(Entries) <= _MAX_BATCH
        failed, sent = list[Json](), list[Json]()
        for entry in Entries:
            code = next((code for text, code in self.refused.items() if text in entry["MessageBody"]), None)
            if code is not None:
                failed.append({"Id": entry["Id"], "Code": code, "SenderFault": True})
                continue
            words = {name: value for name, value in entry.items() if name != "Id"}
            sent.append({"Id": entry["Id"], **self.send_message(QueueUrl=QueueUrl, **words)})
        return {"Successful": sent, "Failed": failed} if failed else {"Successful": sent}

    def receive_message(
        self, *, QueueUrl: str, MaxNumberOfMessages: int = 1, VisibilityTimeout: int | None = None, **_: Any
    ) -> Json:
        """Return visible messages, and hide them."""
        self._answer(QueueUrl)
        taken = self._queue(QueueUrl).receive(min(MaxNumberOfMessages, _MAX_BATCH), VisibilityTimeout)
        return {"Messages": [one.received() for one in taken]} if taken else {}

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> Json:
        """Delete a message."""
        self._answer(QueueUrl)
        self._queue(QueueUrl).delete(ReceiptHandle)
        return {}

    def delete_message_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Json:
        """Delete messages."""
        for entry in Entries:
            self.delete_message(QueueUrl=QueueUrl, ReceiptHandle=entry["ReceiptHandle"])
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> Json:
        """Set when a message becomes visible again."""
        self._answer(QueueUrl)
        self._queue(QueueUrl).change_visibility(ReceiptHandle, VisibilityTimeout)
        return {}

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[Any]) -> Json:
        """Set when messages become visible again."""
        for entry in Entries:
            self.change_message_visibility(
                QueueUrl=QueueUrl, ReceiptHandle=entry["ReceiptHandle"], VisibilityTimeout=entry["VisibilityTimeout"]
            )
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def get_queue_attributes(self, *, QueueUrl: str, **_: Any) -> Json:
        """Return how many messages there are."""
        self._answer(QueueUrl)
        return {"Attributes": self._queue(QueueUrl).counts()}

    def _queue(self, url: str) -> MemoryQueue:
        return self.queues[url]

    def _answer(self, url: str) -> None:
        if self.is_away:
            raise EndpointConnectionError(endpoint_url=url)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
