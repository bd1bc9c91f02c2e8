"""Sends requests when they are due, whether or not earlier ones were answered: an open loop.

A client that waits for an answer before its next request leaves out the requests that a slow server would have met
meanwhile, and with them the worst times ("coordinated omission", Gil Tene). So a request's time counts from when it was
due. The generator's own delay is measured as well: above `plan.LATE_P99_MS` the figures are not valid.

One thread with an event loop: hundreds of threads with a request each would wait for one another.
"""

import asyncio
import json
import random
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from bench.load.plan import arrivals
from bench.support.runs import inputs_of
from tests.soak.clients import Account

ANSWER_SECONDS = 40.0
"""The timeout of a request; the gateway gives up earlier."""
_RETRY_SECONDS, _RESEND_SECONDS = 1.0, 120.0
_READABLE = 200
_PROBLEM_TYPE = "application/problem+json"
# The gateway answers for a function that failed or timed out. On AWS this is a problem document as well, by the stack's
# gateway responses, whose templates LocalStack does not support.
_GATEWAY_ERROR_HEADER = "x-amzn-ErrorType"


@dataclass(slots=True)
class Request:
    """One request and its outcome. Times are seconds since the epoch; `status` 0: there was no answer."""

    account: Account
    due: float
    key: str = ""  # idempotency key of a submit; empty for a read
    sent: float = 0.0
    ended: float = 0.0  # when it was answered or given up
    status: int = 0
    reason: str = ""  # the reason code of a problem document, or the error that the client met
    unexpected: str = ""  # an answer that is neither a success nor a problem document (RUN-9)
    run_id: str | None = None

    @property
    def latency_ms(self) -> float:
        return (self.ended - self.due) * 1_000

    @property
    def late_ms(self) -> float:
        return (self.sent - self.due) * 1_000

    @property
    def answer(self) -> str:
        return f"{self.status} {self.reason}".strip() if self.status else self.reason

    @property
    def is_accepted(self) -> bool:
        return self.status == 202

    @property
    def is_refused(self) -> bool:
        """True if there is no run and the client must not retry: the request has no effect."""
        return 400 <= self.status < 500 and self.reason != "IDEMPOTENCY_IN_PROGRESS"

    @property
    def is_unknown(self) -> bool:
        """True if the client does not know whether there is a run, and must retry with the same key."""
        return not self.is_accepted and not self.is_refused


@dataclass(slots=True)
class Phase:
    """Submits at `rate` a second and as many reads, for some seconds.

    The first `settling` seconds, which come before these, are not measured.
    """

    name: str
    rate: float
    seconds: float
    settling: float = 0.0
    began: float = 0.0
    submits: list[Request] = field(default_factory=list)
    reads: list[Request] = field(default_factory=list)
    unsent: Counter[str] = field(default_factory=Counter)  # due, measured and not sent, by method

    @property
    def measured_from(self) -> float:
        return self.began + self.settling

    @property
    def ended(self) -> float:
        return self.began + self.settling + self.seconds

    def measured(self, requests: Sequence[Request]) -> list[Request]:
        """Those that were due after the settling time."""
        return [request for request in requests if request.due >= self.measured_from]


class Generator:
    """Runs phases one after another, without waiting for the answers of the one before. For one event loop."""

    def __init__(self, base_url: str, accounts: Sequence[Account], seed: int, most_under_way: int) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=most_under_way)
        self._http = httpx.AsyncClient(base_url=base_url, timeout=ANSWER_SECONDS, trust_env=False, limits=limits)
        self._accounts = accounts
        self._chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._most = most_under_way
        self._under_way = set[asyncio.Task[None]]()
        self._readable = deque[tuple[Account, str]](maxlen=_READABLE)
        self.phases: list[Phase] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # also Ctrl-C: do not wait for answers
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)
        await self.wait_for_answers()
        await self._http.aclose()

    async def burst(self, name: str, requests: int) -> None:
        """Warm up the functions: many submits at once, then as many reads, each with their answers."""
        phase = self._begin(Phase(name, 0.0, 0.0))
        for method in ("POST", "GET"):
            for _ in range(requests):
                self._send(phase, method, time.time())
            await self.wait_for_answers()

    async def run(self, phase: Phase) -> None:
        """Send all requests of a phase when they are due. Answers may still be outstanding afterwards."""
        length = phase.settling + phase.seconds
        due = [
            (at, method)
            for method in ("POST", "GET")
            for at in arrivals(phase.rate, length, random.Random(self._chance.random()))  # noqa: S311 - likewise
        ]
        self._begin(phase)
        for offset, method in sorted(due):
            at = phase.began + offset
            if (left := at - time.time()) > 0:
                await asyncio.sleep(left)
            if len(self._under_way) < self._most:
                self._send(phase, method, at)
            elif at >= phase.measured_from:
                phase.unsent[method] += 1
        await asyncio.sleep(max(0.0, phase.ended - time.time()))

    async def wait_for_answers(self) -> None:
        """Wait until no request is under way."""
        while self._under_way:
            await asyncio.gather(*self._under_way)

    async def resend(self, requests: Sequence[Request]) -> None:
        """Repeat requests with their keys until their outcome is known, as a client does that got no answer."""
        for request in requests:
            until = time.time() + _RESEND_SECONDS
            while request.is_unknown and time.time() < until:
                await self._post(request)
                if request.is_unknown:
                    await asyncio.sleep(_RETRY_SECONDS)

    @property
    def submits(self) -> list[Request]:
        return [request for phase in self.phases for request in phase.submits]

    def _begin(self, phase: Phase) -> Phase:
        phase.began = time.time()
        self.phases.append(phase)
        return phase

    def _send(self, phase: Phase, method: str, due: float) -> None:
        if method == "POST":
            key = f"load-{phase.name}-{len(phase.submits):05d}"
            request = Request(self._chance.choice(self._accounts), due, key)
            phase.submits.append(request)
            task = asyncio.create_task(self._post(request))
        elif self._readable:
            account, run_id = self._chance.choice(self._readable)
            request = Request(account, due, run_id=run_id)
            phase.reads.append(request)
            task = asyncio.create_task(self._get(request))
        else:
            return
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _post(self, request: Request) -> None:
        headers = {"Idempotency-Key": request.key, "Content-Type": "application/json"}
        content = json.dumps(body_of(request.key)).encode()
        answer = await self._call(request, "POST", "/v1/runs", headers, content)
        if answer is not None and answer.status_code == 202:
            request.run_id = str(answer.json()["run_id"])
            self._readable.append((request.account, request.run_id))

    async def _get(self, request: Request) -> None:
        await self._call(request, "GET", f"/v1/runs/{request.run_id}", {}, None)

    async def _call(
        self, request: Request, method: str, path: str, headers: Mapping[str, str], content: bytes | None
    ) -> httpx.Response | None:
        """Send it and note the outcome. Returns the answer, or None if there was none."""
        headers = {"Authorization": f"Bearer {request.account.token}", **headers}
        request.sent = time.time()
        try:
            answer = await self._http.request(method, path, headers=headers, content=content)
        except httpx.HTTPError as error:
            request.status, request.reason = 0, type(error).__name__
            return None
        finally:
            request.ended = time.time()
        request.status = answer.status_code
        request.reason = "" if answer.is_success else _reason(answer)
        if not answer.is_success and not request.reason and _GATEWAY_ERROR_HEADER in answer.headers:
            request.reason = "by the gateway"
        elif not answer.is_success and not request.reason:
            request.reason = "no problem document"
            request.unexpected = f"{answer.status_code}, no problem document: {answer.text[:300]}"
        return answer


def body_of(key: str) -> dict[str, Any]:
    """The body of every submit: a decision by the offline engine, at one price."""
    return {
        "pack_type": "decision",
        "inputs": inputs_of(key),
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0},
    }


def _reason(answer: httpx.Response) -> str:
    """The reason code of a problem document; empty if the answer is not one."""
    try:
        document = answer.json()
        reason, status = str(document["reason_code"]), document["status"]
    except (ValueError, KeyError, TypeError):
        return ""
    is_problem = answer.headers.get("Content-Type", "").startswith(_PROBLEM_TYPE)
    return reason if is_problem and status == answer.status_code else ""
