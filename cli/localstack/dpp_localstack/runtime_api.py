"""The Lambda Runtime API of one process: the HTTP server that `awslambdaric` polls for its next event.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html. One server a process, on a free loopback port,
so that nothing late from a killed process reaches its successor.
"""

import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue

_PREFIX = "/2018-06-01/runtime/"


@dataclass(frozen=True)
class Invocation:
    """One event for a function, as the Runtime API hands it out."""

    request_id: str
    function_arn: str
    payload: bytes
    trace_id: str = ""


@dataclass(frozen=True)
class Ready:
    """The process asks for its next event: init is over, or the last event is answered."""


@dataclass(frozen=True)
class InitFailed:
    """The handler's module could not be loaded."""

    body: bytes


@dataclass(frozen=True)
class Answered:
    """The handler returned (or raised, when `failed`) for one request."""

    request_id: str
    body: bytes
    failed: bool


@dataclass(frozen=True)
class Exited:
    """The process is gone; negative is the signal that ended it."""

    status: int


type Event = Ready | InitFailed | Answered | Exited


class RuntimeApi:
    """Serves one process: what it reports stands in `events`, what it shall do goes in by `hand_out`."""

    def __init__(self, timeout_seconds: float) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.timeout_seconds = timeout_seconds
        self._pending: SimpleQueue[Invocation | None] = SimpleQueue()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """`host:port`, the value of `AWS_LAMBDA_RUNTIME_API`."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def hand_out(self, invocation: Invocation) -> None:
        """Give the process its next event."""
        self._pending.put(invocation)

    def next_invocation(self) -> Invocation | None:
        """Wait for an event on behalf of the process; None when the server closes."""
        return self._pending.get()

    def close(self) -> None:
        """Release a waiting process, and the port."""
        self._pending.put(None)
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, api: RuntimeApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api

    def handle_error(self, *_args: object) -> None:
        """A process killed in the middle of a request resets its connection; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer would else wait 40 ms for a delayed ACK
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Silent: one line a poll would bury LocalStack's own log."""

    def do_GET(self) -> None:
        if self.path != f"{_PREFIX}invocation/next":
            self._reply(404)
            return
        api = self.server.api
        api.events.put(Ready())
        invocation = api.next_invocation()
        if invocation is None:
            self.close_connection = True
            return
        deadline_ms = int((time.time() + api.timeout_seconds) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
            "Lambda-Runtime-Trace-Id": invocation.trace_id,
            "Lambda-Runtime-Deadline-Ms": str(deadline_ms),
        }
        self._reply(200, invocation.payload, headers)

    def do_POST(self) -> None:
        body = self._body()
        match self.path.removeprefix(_PREFIX).split("/"):
            case ["init", "error"]:
                self.server.api.events.put(InitFailed(body))
            case ["invocation", request_id, "response"]:
                self.server.api.events.put(Answered(request_id, body, failed=False))
            case ["invocation", request_id, "error"]:
                self.server.api.events.put(Answered(request_id, body, failed=True))
            case _:
                self._reply(404)
                return
        self._reply(202, b'{"status":"OK"}')

    def _reply(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)
