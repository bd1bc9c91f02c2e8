"""`python -m bench.runs_aws`: SQS, its event source mapping and S3 for the benches, as quick as Python can be.

Real HTTP over loopback, in one process of its own, which prints its port and ends with its starter. Of SQS it takes
SendMessage; of S3 PutObject, with the `100 Continue` that boto3 waits for; both keep what they get in memory. For the
mapping and Lambda's runtime interface stand `POST /next`, which tells what became of the message at hand and waits for
the next event of one message (the run queue's batch size), and `GET /stats`. A message is given once: nothing here
fails, so visibility timeouts and redelivery are left out, and so are signatures and AWS's own 10 to 20 ms a call.
"""

import asyncio
import hashlib
import json
import os
import time
from collections import Counter, deque
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from tests.support.server_processes import end_with_starter, served

type Head = dict[bytes, bytes]
_JSON = b"application/x-amz-json-1.0"


class _State:
    """What was sent and not yet taken, what is being worked on, what was stored and how often."""

    def __init__(self) -> None:
        self.messages: deque[str] = deque()
        self.waiting: deque[_Connection] = deque()
        self.at_work: set[str] = set()
        self.objects: dict[bytes, bytes] = {}
        self.puts: Counter[bytes] = Counter()
        self.done: Counter[str] = Counter()

    def send(self, body: bytes) -> bytes:
        """SendMessage; boto3 checks the digest."""
        text: str = json.loads(body)["MessageBody"]
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        self.messages.append(text)
        self.give()
        return json.dumps({"MessageId": str(uuid4()), "MD5OfMessageBody": digest}).encode()

    def put(self, path: bytes, body: bytes) -> None:
        """PutObject."""
        self.objects[path] = body
        self.puts[path] += 1

    def next(self, connection: "_Connection", body: bytes) -> None:
        """The message at hand is over, as its worker says; the next one, when there is one."""
        if body:
            told = json.loads(body)
            self.at_work.discard(told["message_id"])
            self.done["failed" if told["failed"] else "deleted"] += 1
        self.waiting.append(connection)
        self.give()

    def give(self) -> None:
        """Messages to those who wait."""
        while self.messages and self.waiting:
            connection = self.waiting.popleft()
            if not connection.gone:
                message_id = str(uuid4())
                self.at_work.add(message_id)
                connection.answer(_event(message_id, self.messages.popleft()))

    def stats(self) -> bytes:
        """Counts of everything, and which process this is."""
        told = {
            "queued": len(self.messages),
            "at_work": len(self.at_work),
            "deleted": self.done["deleted"],
            "failed": self.done["failed"],
            "objects": len(self.objects),
            "puts": self.puts.total(),
            "pid": os.getpid(),
        }
        return json.dumps(told).encode()


def _event(message_id: str, body: str) -> bytes:
    attributes = {"ApproximateReceiveCount": "1", "SentTimestamp": str(int(time.time() * 1_000))}
    record = {
        "messageId": message_id,
        "receiptHandle": message_id,
        "body": body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:runs",
        "awsRegion": "us-east-1",
    }
    return json.dumps({"Records": [record]}).encode()


class _Connection(asyncio.Protocol):
    """One client's requests, one after another."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.gone = False
        self._buffer = b""
        self._continued = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        """It left, or was ended."""
        self.gone = True

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].split(b"\r\n")
            head = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
            size = int(head.get(b"content-length", 0))
            begin = end + 4
            if len(self._buffer) < begin + size:
                if b"expect" in head and not self._continued:
                    self._continued = True
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body, self._buffer = self._buffer[begin : begin + size], self._buffer[begin + size :]
            self._continued = False
            verb, path, _ = first.split(b" ", 2)
            self._answer(verb, path, body)

    def answer(self, body: bytes, kind: bytes = _JSON, more: bytes = b"") -> None:
        """With 200."""
        size = str(len(body)).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nContent-Length: " + size + b"\r\n"
        self._transport.write(head + more + b"\r\n" + body)

    def _answer(self, verb: bytes, path: bytes, body: bytes) -> None:
        if verb == b"PUT":
            self.state.put(path, body)
            self.answer(b"", b"application/xml", b'ETag: "0"\r\n')
        elif path == b"/next":
            self.state.next(self, body)
        elif path == b"/stats":
            self.answer(self.state.stats())
        else:
            self.answer(self.state.send(body))


class EventSource:
    """A worker's end of the event source mapping."""

    def __init__(self, endpoint: str) -> None:
        self._http = HTTPConnection(urlsplit(endpoint).netloc)

    def next(self, done: dict[str, Any] | None) -> dict[str, Any]:
        """The next event, once there is one; `done` says what became of the last one's message."""
        self._http.request("POST", "/next", b"" if done is None else json.dumps(done).encode())
        event: dict[str, Any] = json.loads(self._http.getresponse().read())
        return event

    def stats(self) -> dict[str, int]:
        """What was sent, stored, and done, counted."""
        self._http.request("GET", "/stats")
        told: dict[str, int] = json.loads(self._http.getresponse().read())
        return told


def stand_in() -> AbstractContextManager[str]:
    """The server in a process of its own; its endpoint."""
    return served("bench.runs_aws")


async def _serve() -> None:
    state = _State()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    end_with_starter()
    asyncio.run(_serve())
