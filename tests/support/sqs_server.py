"""`python -m tests.support.sqs_server`: MemorySqs over loopback HTTP, for subprocess workers; prints its port.

It speaks the part of SQS's JSON protocol that `dpp.platform.aws.queue` uses, with long polling. It has no signatures,
no retention, and none of AWS's own time (10 to 20 ms a call).
"""

import asyncio
import json
import re
from contextlib import AbstractContextManager

from tests.support.memory_sqs import Json, MemoryQueue, MemorySqs
from tests.support.server_processes import end_with_starter, served

_WORD = re.compile(r"(?<!^)(?=[A-Z])")


class _Server:
    """Answers each request of each connection in turn."""

    def __init__(self) -> None:
        self.sqs = MemorySqs()
        self.changed = asyncio.Event()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, until the client closes it or dies."""
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])
                }
                request = json.loads(await reader.readexactly(int(headers["content-length"])))
                action = headers["x-amz-target"].rpartition(".")[2]
                body = json.dumps(await self._answer(action, request)).encode()
                answer = f"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}"
                writer.write(answer.encode() + b"\r\n\r\n" + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, action: str, request: Json) -> Json:
        if action == "ReceiveMessage":
            await self._wait(self.sqs.queues[request["QueueUrl"]], request.get("WaitTimeSeconds", 0))
        answer: Json = getattr(self.sqs, _WORD.sub("_", action).lower())(**request)
        if action != "ReceiveMessage":
            self.changed.set()
        return answer

    async def _wait(self, queue: MemoryQueue, seconds: float) -> None:
        """Until a message may be visible, for so many seconds at most."""
        until = queue.clock() + seconds
        while True:
            now, due = queue.clock(), queue.next_visible_at()
            if now >= until or (due is not None and due <= now):
                return
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), max(min(until, due or until) - now, 0.001))
            except TimeoutError:
                continue


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
