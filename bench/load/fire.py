"""Sends requests when they are due, whether or not the ones before were answered: an open loop.

A client that waits for an answer before it sends the next request leaves out the requests that a slow server would have
met meanwhile, and with them the worst times ("coordinated omission", Gil Tene). So a request's time counts from when it
was due. How much later it was sent is measured, too: beyond `load_plan.LATE_P99_MS` the generator measured itself.

One thread and an event loop: hundreds of threads, each with a request under way, would wait for one another.
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

MAX_COST_USD = "0.2500"
ANSWER_SECONDS = 40.0
"""How long an answer is waited for; the gateway gives up before."""
_AGAIN_SECONDS = 1.0
_RESEND_SECONDS = 120.0
_READABLE = 200
_CONTENT = "application/problem+json"
_JSON = {"Content-Type": "application/json"}
_ERROR_OF_GATEWAY = "x-amzn-ErrorType"
"""The gateway answers in place of a function that failed or took too long. On AWS this is a problem document, too, by
the stack's gateway responses, whose templates LocalStack leaves out.
"""


@dataclass(slots=True)
class Shot:
    """One request. Times are seconds since the epoch; `status` 0: no answer came."""

    account: Account
    due: float
    key: str = ""
    """The idempotency key of a submit; a read has none."""
    sent: float = 0.0
    ended: float = 0.0
    """When it was answered, or given up."""
    status: int = 0
    said: str = ""
    """The reason code of a problem document; what the client met where no answer came."""
    odd: str = ""
    """An answer to it that was neither a success nor a problem document (RUN-9)."""
    run_id: str | None = None

    @property
    def latency_ms(self) -> float:
        """From when it was due."""
        return (self.ended - self.due) * 1_000

    @property
    def late_ms(self) -> float:
        """From when it was due until it was sent."""
        return (self.sent - self.due) * 1_000

    @property
    def answer(self) -> str:
        """In a word."""
        return f"{self.status} {self.said}".strip() if self.status else self.said

    @property
    def accepted(self) -> bool:
        """A run was promised."""
        return self.status == 202

    @property
    def refused(self) -> bool:
        """No run was promised, and the client need not ask again: whatever it does, this request is without effect."""
        return 400 <= self.status < 500 and self.said != "IDEMPOTENCY_IN_PROGRESS"

    @property
    def open(self) -> bool:
        """The client can't know what became of it, and is told to repeat it with the same key."""
        return not self.accepted and not self.refused


@dataclass(slots=True)
class Phase:
    """So many submits a second, and as many reads, for some seconds.

    What is due in the first `settling` seconds, which come before, is not measured.
    """

    name: str
    rate: float
    seconds: float
    settling: float = 0.0
    begun: float = 0.0
    submits: list[Shot] = field(default_factory=list)
    reads: list[Shot] = field(default_factory=list)
    unsent: Counter[str] = field(default_factory=Counter)
    """Due and not sent, by what they were; only those that are measured."""

    @property
    def measured_from(self) -> float:
        """Since the epoch, in seconds."""
        return self.begun + self.settling

    @property
    def ended(self) -> float:
        """Likewise."""
        return self.begun + self.settling + self.seconds

    def measured(self, shots: Sequence[Shot]) -> list[Shot]:
        """Those that were due after the phase had settled."""
        return [shot for shot in shots if shot.due >= self.measured_from]


class Generator:
    """Fires phases, one after another, each whether or not the one before was answered. For one event loop."""

    def __init__(self, base_url: str, accounts: Sequence[Account], seed: int, most_under_way: int) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=most_under_way)
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=ANSWER_SECONDS, trust_env=False, limits=limits
        )
        self._accounts = accounts
        self._chance = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self._most = most_under_way
        self._under_way = set[asyncio.Task[None]]()
        self._readable = deque[tuple[Account, str]](maxlen=_READABLE)
        self.phases: list[Phase] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # Ctrl-C among it: nobody waits for answers any more
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)
        await self.answered()
        await self._http.aclose()

    async def burst(self, name: str, requests: int) -> None:
        """So many submits, and then as many reads, at once, and their answers: environments of functions are warm."""
        phase = self._begin(Phase(name, 0.0, 0.0))
        for method in ("POST", "GET"):
            for _ in range(requests):
                self._send(phase, method, time.time())
            await self.answered()

    async def fire(self, phase: Phase) -> None:
        """Send all of a phase, each when it is due; answers may be under way still."""
        length = phase.settling + phase.seconds
        due = [
            (at, method)
            for method in ("POST", "GET")
            for at in arrivals(phase.rate, length, random.Random(self._chance.random()))  # noqa: S311 - likewise
        ]
        self._begin(phase)
        for offset, method in sorted(due):
            at = phase.begun + offset
            if (left := at - time.time()) > 0:
                await asyncio.sleep(left)
            if len(self._under_way) < self._most:
                self._send(phase, method, at)
            elif at >= phase.measured_from:
                phase.unsent[method] += 1
        await asyncio.sleep(max(0.0, phase.ended - time.time()))

    async def answered(self) -> None:
        """Wait until nothing is under way."""
        while self._under_way:
            await asyncio.gather(*self._under_way)

    async def resend(self, shots: Sequence[Shot]) -> None:
        """What a client does that got no answer: the same again with the same key, until it is told what came of it."""
        for shot in shots:
            until = time.time() + _RESEND_SECONDS
            while shot.open and time.time() < until:
                await self._post(shot)
                if shot.open:
                    await asyncio.sleep(_AGAIN_SECONDS)

    @property
    def submits(self) -> list[Shot]:
        """All that were ever sent."""
        return [shot for phase in self.phases for shot in phase.submits]

    def _begin(self, phase: Phase) -> Phase:
        phase.begun = time.time()
        self.phases.append(phase)
        return phase

    def _send(self, phase: Phase, method: str, due: float) -> None:
        if method == "GET":
            if not self._readable:
                return
            account, run_id = self._chance.choice(self._readable)
            shot = Shot(account, due, run_id=run_id)
            phase.reads.append(shot)
            task = asyncio.create_task(self._get(shot))
        else:
            key = f"load-{phase.name}-{len(phase.submits):05d}"
            shot = Shot(self._chance.choice(self._accounts), due, key)
            phase.submits.append(shot)
            task = asyncio.create_task(self._post(shot))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _post(self, shot: Shot) -> None:
        headers = {"Idempotency-Key": shot.key, **_JSON}
        answer = await self._call(shot, "POST", "/v1/runs", headers, json.dumps(body_of(shot.key)).encode())
        if answer is not None and answer.status_code == 202:
            shot.run_id = str(answer.json()["run_id"])
            self._readable.append((shot.account, shot.run_id))

    async def _get(self, shot: Shot) -> None:
        await self._call(shot, "GET", f"/v1/runs/{shot.run_id}", {}, None)

    async def _call(
        self, shot: Shot, method: str, path: str, headers: Mapping[str, str], content: bytes | None
    ) -> httpx.Response | None:
        """One request, and what is noted of its answer; None where none came."""
        sent = {"Authorization": f"Bearer {shot.account.token}", **headers}
        shot.sent = time.time()
        try:
            answer = await self._http.request(method, path, headers=sent, content=content)
        except httpx.HTTPError as error:
            shot.status, shot.said = 0, type(error).__name__
            return None
        finally:
            shot.ended = time.time()
        shot.status = answer.status_code
        shot.said = "" if answer.is_success else _reason(answer)
        if not answer.is_success and not shot.said and _ERROR_OF_GATEWAY in answer.headers:
            shot.said = "by the gateway"
        elif not answer.is_success and not shot.said:
            shot.said = "no problem document"
            shot.odd = f"{answer.status_code}, no problem document: {answer.text[:300]}"
        return answer


def body_of(key: str) -> dict[str, Any]:
    """What every submit asks: a decision by the offline engine, at one price."""
    return {
        "pack_type": "decision",
        "inputs": inputs_of(key),
        "reservation": {"max_cost_usd": MAX_COST_USD, "timebox_sec": 90, "min_reliability_score": 0},
    }


def _reason(answer: httpx.Response) -> str:
    """The reason code of a problem document; empty where the answer is none."""
    try:
        document = answer.json()
        reason, status = str(document["reason_code"]), document["status"]
    except (ValueError, KeyError, TypeError):
        return ""
    of_kind = answer.headers.get("Content-Type", "").startswith(_CONTENT)
    return reason if of_kind and status == answer.status_code else ""
