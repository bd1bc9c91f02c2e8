"""`python -m tests.support.s3_server`: an object store over loopback HTTP, for subprocess workers; prints its port.

Of S3's protocol what `dpp.workspaces.providers.s3_archives` speaks of small objects: HEAD, GET and conditional PUT, in
memory. What is not here: parts, lists, signatures. It ends with whoever started it.
"""

import hashlib
import threading
from contextlib import AbstractContextManager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.server_processes import end_with_starter, served

_LOCK = threading.Lock()
_OBJECTS: dict[str, tuple[bytes, str, str]] = {}


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        """What there is, without its bytes."""
        self._give(with_body=False)

    def do_GET(self) -> None:
        """The bytes."""
        self._give(with_body=True)

    def do_PUT(self) -> None:
        """Store them, if the condition holds at this moment."""
        content = self.rfile.read(int(self.headers["content-length"]))
        etag = f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'
        with _LOCK:
            stands = _OBJECTS.get(self.path)
            wanted = self.headers.get("if-match")
            refused = (
                wanted is not None and (stands is None or stands[1].strip('"') != wanted.strip('"'))
            ) or (self.headers.get("if-none-match") == "*" and stands is not None)
            if not refused:
                _OBJECTS[self.path] = (content, etag, formatdate(usegmt=True))
        if refused:
            self._error(412, "PreconditionFailed")
        else:
            self._answer(200, b"", etag=etag)

    def _give(self, *, with_body: bool) -> None:
        with _LOCK:
            stands = _OBJECTS.get(self.path)
        if stands is None:
            self._error(404, "NoSuchKey")
            return
        content, etag, modified = stands
        self._answer(200, content, etag=etag, last_modified=modified, with_body=with_body)

    def _error(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def _answer(
        self, status: int, body: bytes, *, etag: str = "", last_modified: str = "", with_body: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in (("ETag", etag), ("Last-Modified", last_modified)):
            if value:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body and self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class _Server(ThreadingHTTPServer):
    """One thread a connection."""

    def handle_error(self, *_: object) -> None:
        """A client was killed."""


def s3_server() -> AbstractContextManager[str]:
    """The server in a process of its own; its endpoint."""
    return served("tests.support.s3_server")


if __name__ == "__main__":
    end_with_starter()
    listening = _Server(("127.0.0.1", 0), _Handler)
    print(listening.server_port, flush=True)  # noqa: T201
    listening.serve_forever()
