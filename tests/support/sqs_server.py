"""`python -m tests.support.sqs_server`: a queue over loopback HTTP, for subprocess workers; prints its port.

The part of SQS's JSON protocol that `dpp.platform.aws.queue` uses, over loopback HTTP: standard queues in memory,
made at their first use, with visibility timeouts, receive counts and long polling. A message that is not deleted in
time comes again; a receipt handle of an earlier receive deletes nothing. What is not here: AWS's own time (10 to 20
ms a call), its signatures, its retention, and redrive by receive count. It ends with whoever started it.
"""

import asyncio
import hashlib
import heapq
import json
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from tests.support.server_processes import end_with_starter, served

type Words = dict[str, Any]
_IN_FLIGHT_SECONDS = 30


@dataclass(slots=True)
class _Message:
    body: str
    attributes: Words
    number: int
    message_id: str = field(default_factory=lambda: str(uuid4()))
    sent_at_ms: int = field(default_factory=lambda: int(time.time() * 1_000))
    visible_at: float = 0.0
    receive_count: int = 0

    def sent(self) -> Words:
        """What its sender is told; boto3 checks the digest."""
        return {"MessageId": self.message_id, "MD5OfMessageBody": _md5(self.body)}

    def received(self) -> Words:
        """What its receiver is told."""
        return {
            "MessageId": self.message_id,
            "ReceiptHandle": f"{self.number}.{self.receive_count}",
            "Body": self.body,
            "MD5OfBody": _md5(self.body),
            "Attributes": {
                "ApproximateReceiveCount": str(self.receive_count),
                "SentTimestamp": str(self.sent_at_ms),
            },
            "MessageAttributes": self.attributes,
        }


class _Queue:
    """Messages by number; in the heap once for each time that they become visible, stale entries skipped."""

    def __init__(self) -> None:
        self.messages: dict[int, _Message] = {}
        self.heap: list[tuple[float, int]] = []
        self.changed = asyncio.Event()
        self.sent = 0

    def send(self, words: Words) -> Words:
        """One message, visible after its delay."""
        self.sent += 1
        message = _Message(words["MessageBody"], words.get("MessageAttributes") or {}, self.sent)
        self.messages[message.number] = message
        self._show(message, words.get("DelaySeconds", 0))
        return message.sent()

    async def receive(self, words: Words) -> Words:
        """What is visible, or becomes so while the receiver waits."""
        until = time.monotonic() + words.get("WaitTimeSeconds", 0)
        while True:
            taken = self._take(words.get("MaxNumberOfMessages", 1), words.get("VisibilityTimeout"))
            now = time.monotonic()
            if taken or now >= until:
                return {"Messages": taken} if taken else {}
            self.changed.clear()
            wait = min([until, *(visible_at for visible_at, _ in self.heap[:1])]) - now
            try:
                await asyncio.wait_for(self.changed.wait(), max(wait, 0.001))
            except TimeoutError:
                continue

    def _take(self, at_most: int, seconds: int | None) -> list[Words]:
        taken: list[Words] = []
        now = time.monotonic()
        while len(taken) < at_most and self.heap and self.heap[0][0] <= now:
            visible_at, number = heapq.heappop(self.heap)
            message = self.messages.get(number)
            if message is None or message.visible_at != visible_at:
                continue
            message.receive_count += 1
            self._show(message, _IN_FLIGHT_SECONDS if seconds is None else seconds)
            taken.append(message.received())
        return taken

    def delete(self, words: Words) -> Words:
        """The message, by the handle of its last receive."""
        if (message := self._held(words)) is not None:
            del self.messages[message.number]
        return {}

    def change_visibility(self, words: Words) -> Words:
        """When it comes again."""
        if (message := self._held(words)) is not None:
            self._show(message, words["VisibilityTimeout"])
        return {}

    def attributes(self, _words: Words) -> Words:
        """How many messages there are, visible or not."""
        return {"Attributes": {"QueueArn": "arn", "ApproximateNumberOfMessages": str(len(self.messages))}}

    def _held(self, words: Words) -> _Message | None:
        number, _, count = str(words["ReceiptHandle"]).partition(".")
        message = self.messages.get(int(number))
        return message if message is not None and message.receive_count == int(count) else None

    def _show(self, message: _Message, in_seconds: float) -> None:
        message.visible_at = time.monotonic() + in_seconds
        heapq.heappush(self.heap, (message.visible_at, message.number))
        self.changed.set()


class _Server:
    """Answers each request of each connection in turn."""

    def __init__(self) -> None:
        self.queues: defaultdict[str, _Queue] = defaultdict(_Queue)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the client leaves, or dies."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                words = json.loads(await reader.readexactly(int(headers["content-length"])))
                action = headers["x-amz-target"].rpartition(".")[2]
                body = json.dumps(await self._answer(action, words)).encode()
                said = f"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}"
                writer.write(said.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, action: str, words: Words) -> Words:
        queue = self.queues[words["QueueUrl"]]
        if action == "receivemessage":
            return await queue.receive(words)
        single: dict[str, Callable[[Words], Words]] = {
            "sendmessage": queue.send,
            "deletemessage": queue.delete,
            "changemessagevisibility": queue.change_visibility,
            "getqueueattributes": queue.attributes,
        }
        if not action.endswith("batch"):
            return single[action](words)
        one = single[action.removesuffix("batch")]
        return {"Successful": [{"Id": entry["Id"], **one(entry)} for entry in words["Entries"]], "Failed": []}


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def sqs_server() -> AbstractContextManager[str]:
    """The server in a process of its own; its endpoint."""
    return served("tests.support.sqs_server")


async def _serve() -> None:
    server = await asyncio.start_server(_Server().connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    await server.serve_forever()


if __name__ == "__main__":
    end_with_starter()
    asyncio.run(_serve())
