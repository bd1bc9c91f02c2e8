"""`python -m bench.support.aws`: a stand-in for SQS, its event source mapping and S3, as fast as Python allows.

Real HTTP over loopback, served by one process that prints its port and ends with the process that started it. It
answers SendMessage of SQS, and PutObject of S3 with the `100 Continue` that boto3 waits for; it keeps everything in
memory. `POST /next` stands for the event source mapping: it reports the outcome of the current message and waits for
the next event, which holds one message (the run queue's batch size). `GET /stats` answers counts. Each message is
delivered once: nothing fails here, so there is no visibility timeout and no redelivery. Signatures and AWS's own 10 to
20 ms a call are left out as well.
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

_JSON = b"application/x-amz-json-1.0"


class _State:
    """Messages that wait or are in flight, and stored objects."""

    def __init__(self) -> None:
        self.messages: deque[str] = deque()
        self.waiting: deque[_Connection] = deque()
        self.in_flight: set[str] = set()
        self.objects: dict[bytes, bytes] = {}
        self.puts: Counter[bytes] = Counter()
        self.ended: Counter[str] = Counter()

    def send(self, body: bytes) -> bytes:
        """SendMessage; boto3 checks the digest."""
        text: str = json.loads(body)["MessageBody"]
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        self.messages.append(text)
        self.deliver()
        return json.dumps({"MessageId": str(uuid4()), "MD5OfMessageBody": digest}).encode()

    def put(self, path: bytes, body: bytes) -> None:
        self.objects[path] = body
        self.puts[path] += 1

    def next(self, connection: "_Connection", body: bytes) -> None:
        """Note the outcome of the worker's message; its next event follows when there is one."""
        if body:
            outcome = json.loads(body)
            self.in_flight.discard(outcome["message_id"])
            self.ended["failed" if outcome["failed"] else "deleted"] += 1
        self.waiting.append(connection)
        self.deliver()

    def deliver(self) -> None:
        while self.messages and self.waiting:
            connection = self.waiting.popleft()
            if not connection.closed:
                message_id = str(uuid4())
                self.in_flight.add(message_id)
                connection.answer(_event(message_id, self.messages.popleft()))

    def stats(self) -> bytes:
        """All counts, and the pid of this process."""
        counts = {
            "queued": len(self.messages),
            "in_flight": len(self.in_flight),
            "deleted": self.ended["deleted"],
            "failed": self.ended["failed"],
            "objects": len(self.objects),
            "puts": self.puts.total(),
            "pid": os.getpid(),
        }
        return json.dumps(counts).encode()


def _event(message_id: str, body: str) -> bytes:
    record = {
        "messageId": message_id,
        "receiptHandle": message_id,
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(int(time.time() * 1_000))},
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
        self.closed = False
        self._buffer = b""
        self._continued = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        self.closed = True

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].split(b"\r\n")
            head = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
            begin = end + 4
            size = int(head.get(b"content-length", 0))
            if len(self._buffer) < begin + size:
                if b"expect" in head and not self._continued:
                    self._continued = True
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body, self._buffer = self._buffer[begin : begin + size], self._buffer[begin + size :]
            self._continued = False
            verb, path, _ = first.split(b" ", 2)
            self._handle(verb, path, body)

    def answer(self, body: bytes, content_type: bytes = _JSON, header: bytes = b"") -> None:
        """Answer 200."""
        size = str(len(body)).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: " + content_type + b"\r\nContent-Length: " + size + b"\r\n"
        self._transport.write(head + header + b"\r\n" + body)

    def _handle(self, verb: bytes, path: bytes, body: bytes) -> None:
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
    """A worker's connection to the event source mapping."""

    def __init__(self, endpoint: str) -> None:
        self._http = HTTPConnection(urlsplit(endpoint).netloc)

    def next(self, outcome: dict[str, Any] | None) -> dict[str, Any]:
        """Report the outcome of the last event's message and wait for the next event."""
        self._http.request("POST", "/next", b"" if outcome is None else json.dumps(outcome).encode())
        event: dict[str, Any] = json.loads(self._http.getresponse().read())
        return event

    def stats(self) -> dict[str, int]:
        self._http.request("GET", "/stats")
        counts: dict[str, int] = json.loads(self._http.getresponse().read())
        return counts


def stand_in() -> AbstractContextManager[str]:
    """Serve in a process of its own; yields the endpoint."""
    return served("bench.support.aws")


async def _serve() -> None:
    state = _State()
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(state), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    end_with_starter()
    asyncio.run(_serve())
