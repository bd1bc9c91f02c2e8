"""A stand-in for GitHub and Slack in the end-to-end tests; the stack gets its address before deployment.

`python -m tests.e2e.outside` prints what a shell exports, with a free port and secrets of its own: the addresses stand
in the environment of the functions, so that they have to be known first.
"""

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from dpp_cli.local.servers import free_port
from tests.lifecycle.poll_environment import LOGIN, comment, notification

CHANNEL = "C0E2E"
_PORT = "DPP_E2E_OUTSIDE_PORT"


def exports() -> Mapping[str, str]:
    """The environment of a stack that asks the stand-in."""
    port = free_port()
    return {
        _PORT: str(port),
        "DPP_LIFECYCLE_TENANT": "e2e_court",
        "DPP_GITHUB_LOGIN": LOGIN,
        "DPP_GITHUB_URL": f"http://127.0.0.1:{port}/github",
        "DPP_SLACK_URL": f"http://127.0.0.1:{port}/slack",
        "DPP_SLACK_CHANNEL": CHANNEL,
        **{
            name: secrets.token_hex(16)
            for name in (
                *("DPP_GITHUB_TOKEN", "DPP_SLACK_TOKEN"),
                *("DPP_GITHUB_WEBHOOK_SECRET", "DPP_SLACK_SIGNING_SECRET"),
            )
        },
    }


class Outside:
    """GitHub's notifications and Slack's channel, over HTTP on loopback."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.threads: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.posts: list[dict[str, Any]] = []
        self.not_modified = 0
        self.unauthorized = 0

    def mention(self, number: int, body: str) -> None:
        """Somebody mentions us in a comment, now."""
        now = datetime.now(UTC).replace(microsecond=0)
        received = comment(number, at=now, body=body)
        with self.lock:
            self.threads[number] = (notification(number, at=now), received)

    def received(self, text: str) -> list[dict[str, Any]]:
        """Return the posts that contain this text."""
        with self.lock:
            return [post for post in self.posts if text in post["text"]]

    def get(self, path: str, etag: str | None) -> tuple[int, object, dict[str, str]]:
        """GitHub: its notifications, by ETag, and the comments that they are about."""
        where = urlsplit(path).path
        with self.lock:
            if where == "/github/notifications":
                tag = f'"{len(self.threads)}"'
                if etag == tag:
                    self.not_modified += 1
                    return 304, None, {"ETag": tag}
                return 200, [found for found, _ in self.threads.values()], {"ETag": tag}
            for number, (_, received) in self.threads.items():
                if where.endswith(f"/issues/comments/{1000 + number}"):
                    return 200, received, {}
        return 404, {"message": "Not Found"}, {}

    def post(self, received: dict[str, Any]) -> dict[str, Any]:
        """Slack: a message, in a thread or as the beginning of one."""
        with self.lock:
            ts = f"1700000000.{len(self.posts) + 1:06}"
            self.posts.append(received | {"ts": ts})
            return {"ok": True, "channel": CHANNEL, "ts": ts}


@contextmanager
def served() -> Iterator[Outside]:
    """Return the stand-in at the address that the stack got. Raises KeyError without one."""
    outside = Outside()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self._may("DPP_GITHUB_TOKEN"):
                self._answer(*outside.get(self.path, self.headers["If-None-Match"]))

        def do_POST(self) -> None:
            received = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._may("DPP_SLACK_TOKEN"):
                self._answer(200, outside.post(received), {})

        def _may(self, token: str) -> bool:
            if self.headers["Authorization"] == f"Bearer {os.environ[token]}":
                return True
            outside.unauthorized += 1
            self._answer(401, {"message": "Bad credentials"}, {})
            return False

        def _answer(self, status: int, body: object, headers: Mapping[str, str]) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", int(os.environ[_PORT])), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield outside
        finally:
            server.shutdown()
            thread.join()


if __name__ == "__main__":
    for name, value in exports().items():
        print(f"export {name}={value}")  # noqa: T201 - for a shell
