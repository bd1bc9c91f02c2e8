"""The functions and the results' bucket as a client meets them: in process as a transport, or served on loopback."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from dpp_client import Clock
from tests.http.state import work
from tests.packs.loopback import serving
from tests.support.api import ApiClient
from tests.support.world import World

STAGE = "/stage"
URL = f"https://api.test{STAGE}"
_STORAGE = "/storage"

type Answers = Callable[[httpx.Request], httpx.Response]
type Fault = Callable[[httpx.Request, Answers], httpx.Response]


class Gateway:
    """Answers each request by the real handlers, unless a fault is in the way: the next of `faults`, one a request.

    The worker takes the queue's messages before each GET, unless `works` is False.
    """

    def __init__(self, api: ApiClient, world: World) -> None:
        self._api = api
        self._world = world
        self._served_at: str | None = None
        self.works = True
        self.faults: deque[Fault | None] = deque()
        self.requests: list[httpx.Request] = []

    @property
    def transport(self) -> httpx.MockTransport:
        """The way here for a client of the same process."""
        return httpx.MockTransport(self.answer)

    @property
    def storage_requests(self) -> list[httpx.Request]:
        """Those to the bucket."""
        return [one for one in self.requests if not one.url.path.startswith(STAGE)]

    def sent(self, method: str) -> list[httpx.Request]:
        """Those to the API, by their method."""
        return [one for one in self.requests if one.url.path.startswith(STAGE) and one.method == method]

    def answer(self, request: httpx.Request) -> httpx.Response:
        """Return the response, or raise the fault's exception."""
        request.read()
        self.requests.append(request)
        fault = self.faults.popleft() if self.faults else None
        return self._answer(request) if fault is None else fault(request, self._answer)

    @contextmanager
    def served(self) -> Iterator[str]:
        """The API's URL on loopback, for other processes."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            length = int(handler.headers.get("Content-Length") or 0)
            url = f"http://{handler.headers['Host']}{handler.path}"
            request = httpx.Request(
                handler.command, url, headers=handler.headers.items(), content=handler.rfile.read(length)
            )
            _give(handler, self.answer(request))

        with serving(respond) as port:
            self._served_at = f"http://127.0.0.1:{port}"
            yield f"{self._served_at}{STAGE}"

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if not path.startswith(STAGE):
            return self._stored(path.removeprefix(_STORAGE))
        if self.works and request.method == "GET":
            work(self._world)
        headers: dict[str, str | list[str]] = {}
        for name, value in request.headers.multi_items():
            headers[name] = [*headers.get(name, []), value]
        answer = self._api.call(
            request.method, path.removeprefix(STAGE), headers=headers, body=request.content.decode() or None
        )
        return httpx.Response(answer.status, headers=answer.headers, text=self._answered(answer.text))

    def _stored(self, path: str) -> httpx.Response:
        key = unquote(path).removeprefix("/").removeprefix(f"{self._world.bucket}/")
        try:
            stored = self._world.s3.get_object(Bucket=self._world.bucket, Key=key)
        except self._world.s3.exceptions.NoSuchKey:
            return httpx.Response(404, text="<Error><Code>NoSuchKey</Code></Error>")
        return httpx.Response(200, content=stored["Body"].read())

    def _answered(self, text: str) -> str:
        """The answer, with a URL that leads here where moto's would lead nowhere."""
        document = json.loads(text)
        if self._served_at is not None and isinstance(document.get("result"), dict):
            url = urlsplit(document["result"]["presigned_url"])
            document["result"]["presigned_url"] = f"{self._served_at}{_STORAGE}{url.path}?{url.query}"
            return json.dumps(document)
        return text


class PassingClock(Clock):
    """Time that passes by being slept, and by nothing else; no jitter but what a test wants."""

    def __init__(self, jitter: float = 0.5) -> None:
        self.at = 0.0
        self.slept: list[float] = []
        self._jitter = jitter

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds

    def jitter(self) -> float:
        return self._jitter


def lost_reply(request: httpx.Request, answers: Answers) -> httpx.Response:
    """The request arrives and takes effect; its answer does not."""
    answers(request)
    raise httpx.ReadTimeout("the reply is lost", request=request)


def not_reached(request: httpx.Request, answers: Answers) -> httpx.Response:
    """Nothing arrives."""
    raise httpx.ConnectError("[Errno 111] Connection refused", request=request)


def problem(status: int, reason_code: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> Fault:
    """A problem document in place of the answer; nothing takes effect."""
    document = {"status": status, "reason_code": reason_code, "title": "T", "detail": "D", **members}
    return lambda request, answers: httpx.Response(
        status, headers={"Content-Type": "application/problem+json", **(headers or {})}, json=document
    )


def page(status: int, **headers: str) -> Fault:
    """A proxy's response, which is not a problem document."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request, answers: httpx.Response(status, headers=sent, text="<html>Bad Gateway</html>")


def _give(handler: BaseHTTPRequestHandler, answer: httpx.Response) -> None:
    handler.send_response(answer.status_code)
    for name, value in answer.headers.multi_items():
        handler.send_header(name, value)
    handler.send_header("Connection", "close")  # as `serving` does: a client that doesn't know sends into the void
    handler.end_headers()
    handler.wfile.write(answer.content)
