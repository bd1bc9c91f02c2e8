"""Well-behaved clients: one key for each submission, repeated with the same body until a reply is final."""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

_RETRY_FOR_SECONDS = 120.0
_PAUSE_SECONDS = 1.0
_REPEAT_SHARE = 0.2
_MAX_UNFINISHED = 10
_TERMINAL = frozenset({"COMPLETED", "FAILED", "EXPIRED"})
_AMOUNTS = ("0.2500", "0.0049", "0.4000")
_CONTEXT = "The lease ends in March. The rent rises by 18 percent from April. Moving costs two monthly rents."


@dataclass(slots=True)
class Submission:
    """A client's submission and its reply."""

    tenant_id: str
    key: str
    body: dict[str, Any]
    run_id: str | None = None
    """None without a reply: the run may or may not exist."""
    ended: bool = False
    """Set once the client has read a terminal status."""


@dataclass(slots=True)
class Account:
    """A tenant and its API key."""

    tenant_id: str
    token: str


@dataclass(slots=True)
class Client:
    """Submits runs until `stop` is set, and records the replies."""

    account: Account
    http: httpx.Client
    chance: random.Random
    stop: threading.Event
    submissions: list[Submission] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Replies that no fault explains."""

    def run(self) -> None:
        """Submit runs. Sometimes repeat an earlier submission, which must return the same run."""
        while not self.stop.is_set():
            accepted = [submission for submission in self.submissions if submission.run_id is not None]
            if accepted and self.chance.random() < _REPEAT_SHARE:
                first = self.chance.choice(accepted)
                again = Submission(first.tenant_id, first.key, first.body)
                self._submit(again)
                if again.run_id not in (None, first.run_id):
                    self.wrong.append(f"key {first.key} returned run {again.run_id} after {first.run_id}")
                continue
            unfinished = [submission for submission in accepted if not submission.ended]
            if len(unfinished) >= _MAX_UNFINISHED:  # wait for them, as a client would
                self._poll(unfinished[0])
                continue
            submission = Submission(self.account.tenant_id, f"soak-{uuid4()}", self._body())
            self.submissions.append(submission)
            self._submit(submission)

    def _poll(self, submission: Submission) -> None:
        reply = self._call("GET", f"/v1/runs/{submission.run_id}")
        if reply is not None and reply.status_code == 200:
            submission.ended = reply.json()["status"] in _TERMINAL
        elif reply is not None and reply.status_code < 500:
            self.wrong.append(f"{reply.status_code} to a read: {reply.text[:300]}")
        if not submission.ended:
            time.sleep(_PAUSE_SECONDS)

    def _body(self) -> dict[str, Any]:
        return {
            "pack_type": "decision",
            "inputs": {"question": f"What does moving cost, {self.chance.random()}?", "context": _CONTEXT},
            "reservation": {
                "max_cost_usd": self.chance.choice(_AMOUNTS),
                "timebox_sec": 20,
                "min_reliability_score": self.chance.choice((0.0, 0.0, 1.0)),
            },
        }

    def _submit(self, submission: Submission) -> None:
        """Repeat a submission until its reply is final; after two minutes without one, its run is unknown."""
        deadline = time.monotonic() + _RETRY_FOR_SECONDS
        while time.monotonic() < deadline:
            reply = self._call("POST", "/v1/runs", {"Idempotency-Key": submission.key}, submission.body)
            if reply is not None and reply.status_code == 202:
                submission.run_id = reply.json()["run_id"]
                return
            if reply is not None and not _is_temporary(reply):
                self.wrong.append(f"{reply.status_code}: {reply.text[:300]}")
                return
            time.sleep(_PAUSE_SECONDS)

    def _call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: object = None
    ) -> httpx.Response | None:
        """Send one request and count its reply; None if there was none."""
        sent = {"Authorization": f"Bearer {self.account.token}", **(headers or {})}
        try:
            reply = self.http.request(method, path, headers=sent, json=body)
        except httpx.HTTPError as error:
            self.answers[f"{method} {type(error).__name__}"] += 1
            return None
        self.answers[f"{method} {reply.status_code}"] += 1
        return reply


def _is_temporary(reply: httpx.Response) -> bool:
    """A server error, or an earlier attempt that still holds the idempotency lock (RUN-4)."""
    return reply.status_code >= 500 or (
        reply.status_code == 409 and reply.json().get("reason_code") == "IDEMPOTENCY_IN_PROGRESS"
    )
