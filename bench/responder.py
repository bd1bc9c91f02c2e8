"""An SQS that answers a SendMessage at once, in a process of its own, whose time is not ours."""

import hashlib
import json
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from uuid import uuid4


class _Responder(BaseHTTPRequestHandler):
    """Takes everything; boto3 checks the MD5 of the body, so that much is real."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a SendMessage."""
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        digest = hashlib.md5(sent["MessageBody"].encode(), usedforsecurity=False).hexdigest()
        body = json.dumps({"MessageId": str(uuid4()), "MD5OfMessageBody": digest}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Nothing."""


def _serve(told: Connection) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Responder) as server:
        told.send(server.server_address[1])
        server.serve_forever()


@contextmanager
def responder() -> Iterator[str]:
    """Its endpoint."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
