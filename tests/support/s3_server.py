"""`python -m tests.support.s3_server`: MemoryS3 over loopback HTTP, for subprocess workers; prints its port.

It serves HEAD, GET, conditional PUT and the deletion of several keys. It has no parts, lists or signatures.
"""

import re
import threading
from contextlib import AbstractContextManager
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import ClientError

from tests.support.memory_s3 import MemoryS3
from tests.support.server_processes import end_with_starter, served

_LOCK = threading.Lock()
_S3 = MemoryS3()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        """An object's metadata."""
        self._call(_S3.head_object)

    def do_GET(self) -> None:
        """An object."""
        self._call(_S3.get_object)

    def do_PUT(self) -> None:
        """Write an object, if the condition holds at this moment; or create a bucket."""
        body = self._body()
        if "/" not in self.path.strip("/"):
            self._answer(200, b"")
            return
        conditions = {"IfMatch": self.headers["if-match"], "IfNoneMatch": self.headers["if-none-match"]}
        self._call(_S3.put_object, Body=body, **conditions)

    def do_POST(self) -> None:
        """Delete several objects of one bucket."""
        bucket = self.path.split("?")[0].strip("/")
        for key in re.findall(r"<Key>([^<]*)</Key>", self._body().decode()):
            with _LOCK:
                _S3.delete_object(Key=f"/{bucket}/{key}")
        self._answer(200, b"<DeleteResult/>")

    def _call(self, call: Any, **arguments: Any) -> None:
        try:
            with _LOCK:
                found = call(Key=unquote(self.path), **arguments)
        except ClientError as error:
            code, status = (error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"])
            self._answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())
            return
        body = found["Body"].read() if "Body" in found else b""
        length = found.get("ContentLength", len(body))
        headers = {"ETag": found["ETag"]}
        if "LastModified" in found:
            headers["Last-Modified"] = format_datetime(found["LastModified"], usegmt=True)
        self._answer(200, body, length, headers)

    def _body(self) -> bytes:
        """The request's body, of which botocore sends one with a checksum behind it in chunks."""
        if self.headers["content-length"] is not None and "aws-chunked" not in str(self.headers["content-encoding"]):
            return self.rfile.read(int(self.headers["content-length"]))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers: the checksum
        return whole

    def _answer(
        self, status: int, body: bytes, length: int | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


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
