"""HTTP servers on loopback, for the packs' tests; each ends with its `with`."""

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

Respond = Callable[[BaseHTTPRequestHandler], None]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a handler that drips on purpose must not hold up the test's end

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up on us is what many of these tests are about."""


@contextmanager
def serving(respond: Respond, *, tls: SSLContext | None = None) -> Iterator[int]:
    """Serve GET and POST by `respond`; yields the port on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 120

        def do_GET(self) -> None:
            respond(self)
            self.close_connection = True

        def do_POST(self) -> None:
            # Read whole before anything is answered: closing on unread bytes resets the connection.
            self.rfile = io.BytesIO(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        # The handshake in the connection's own thread: a client that never finishes it blocks no other.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def reply(
    handler: BaseHTTPRequestHandler,
    body: bytes = b"",
    *,
    status: int = 200,
    content_type: str | None = "text/plain; charset=utf-8",
    **headers: str,
) -> None:
    """One whole response; header names are written with underscores."""
    handler.send_response(status)
    if content_type is not None:
        handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)
