"""Clients that behave: a key an order, repeated with the same body until an answer is final."""

import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

_TRY_FOR_SECONDS = 120.0
_PAUSE_SECONDS = 1.0
_REPEAT_SHARE = 0.2
_MOST_UNFINISHED = 10
_ENDED = frozenset({"COMPLETED", "FAILED", "EXPIRED"})
_AMOUNTS = ("0.2500", "0.0049", "0.4000")
_CONTEXT = "The lease ends in March. The rent rises by 18 percent from April. Moving costs two monthly rents."


@dataclass(slots=True)
class Ordered:
    """One order of a client: what it asked, and the run it was told of."""

    tenant_id: str
    key: str
    body: dict[str, Any]
    run_id: str | None = None
    """None while no answer came: the run may or may not be there."""
    ended: bool = False
    """Whether the client has seen its end."""


@dataclass(slots=True)
class Account:
    """A tenant as its client knows it."""

    tenant_id: str
    token: str


@dataclass(slots=True)
class Client:
    """One client: submits until it is told to stop, and notes what it was answered."""

    account: Account
    http: httpx.Client
    chance: random.Random
    stop: threading.Event
    orders: list[Ordered] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Answers that no fault excuses."""

    def work(self) -> None:
        """Order after order; now and then an old one again, which must be the same run."""
        while not self.stop.is_set():
            done = [order for order in self.orders if order.run_id is not None]
            if done and self.chance.random() < _REPEAT_SHARE:
                old = self.chance.choice(done)
                again = Ordered(old.tenant_id, old.key, old.body)
                self._submit(again)
                if again.run_id not in (None, old.run_id):
                    self.wrong.append(f"key {old.key} became run {again.run_id} after {old.run_id}")
                continue
            waiting = [order for order in done if not order.ended]
            if len(waiting) >= _MOST_UNFINISHED:  # as a client would, who waits for what it has ordered
                self._poll(waiting[0])
                continue
            order = Ordered(self.account.tenant_id, f"soak-{uuid4()}", self._body())
            self.orders.append(order)
            self._submit(order)

    def _poll(self, order: Ordered) -> None:
        answer = self._call("GET", f"/v1/runs/{order.run_id}")
        if answer is not None and answer.status_code == 200:
            order.ended = answer.json()["status"] in _ENDED
        elif answer is not None and answer.status_code < 500:
            self.wrong.append(f"{answer.status_code} to a read: {answer.text[:300]}")
        if not order.ended:
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

    def _submit(self, order: Ordered) -> None:
        deadline = time.monotonic() + _TRY_FOR_SECONDS
        while time.monotonic() < deadline:
            answer = self._post(order)
            if answer is not None and answer.status_code == 202:
                order.run_id = answer.json()["run_id"]
                return
            if answer is not None and not self._worth_repeating(answer):
                self.wrong.append(f"{answer.status_code}: {answer.text[:300]}")
                return
            time.sleep(_PAUSE_SECONDS)
        # Nobody told this client; the books will.

    def _post(self, order: Ordered) -> httpx.Response | None:
        return self._call("POST", "/v1/runs", {"Idempotency-Key": order.key}, order.body)

    def _call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: object = None
    ) -> httpx.Response | None:
        """One request, counted by its answer; None where none came."""
        sent = {"Authorization": f"Bearer {self.account.token}", **(headers or {})}
        try:
            answer = self.http.request(method, path, headers=sent, json=body)
        except httpx.HTTPError as error:
            self.answers[f"{method} {type(error).__name__}"] += 1
            return None
        self.answers[f"{method} {answer.status_code}"] += 1
        return answer

    @staticmethod
    def _worth_repeating(answer: httpx.Response) -> bool:
        """A fault of ours, or a first try whose lock still holds (RUN-4)."""
        return answer.status_code >= 500 or (
            answer.status_code == 409 and answer.json().get("reason_code") == "IDEMPOTENCY_IN_PROGRESS"
        )
