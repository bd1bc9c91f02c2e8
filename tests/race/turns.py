"""Forced interleavings: actors on threads take their steps in an order that the test dictates."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dpp.money.ledger import Closed, Ledger
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Connection, Database

_TIMEOUT_SECONDS = 60


class Turns:
    """Lets one actor at a time take one step, in `order`; the turns of an actor that has left are skipped."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)
        self._left: set[str] = set()
        self._changed = threading.Condition()

    @contextmanager
    def step(self, actor: str) -> Iterator[None]:
        """Wait for the actor's turn and hold it during the step."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._is_turn_of(actor), _TIMEOUT_SECONDS):
                raise AssertionError(f"{actor} never had its turn in {self._order}")
            try:
                yield
            finally:
                if self._order:
                    self._order.pop(0)
                self._changed.notify_all()

    def leave(self, actor: str) -> None:
        """The actor takes no more steps."""
        with self._changed:
            self._left.add(actor)
            self._changed.notify_all()

    def _is_turn_of(self, actor: str) -> bool:
        while self._order and self._order[0] in self._left:
            self._order.pop(0)
        return not self._order or self._order[0] == actor


class Steps:
    """An actor's calls of its dependencies; each is one step, and recorded."""

    def __init__(self, actor: str, turns: Turns) -> None:
        self.actor = actor
        self.turns = turns
        self.taken: list[str] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        with self.turns.step(self.actor):
            self.taken.append(name)
            yield


class SteppedDatabase(Database):
    """A database whose every use is a step."""

    def __init__(self, url: str, steps: Steps) -> None:
        super().__init__(url)
        self._steps = steps

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with self._steps.step("database"), super().connection() as connection:
            yield connection


class SteppedLedger(Ledger):
    """A ledger whose every settle and refund is a step."""

    def __init__(self, real: Ledger, steps: Steps) -> None:
        super().__init__(real.client, real.keys)
        self._steps = steps

    def settle(self, tenant_id: str, run_id: str, charge_usd_micros: int) -> Closed:
        with self._steps.step("settle"):
            return super().settle(tenant_id, run_id, charge_usd_micros)

    def refund_full(self, tenant_id: str, run_id: str) -> Closed:
        with self._steps.step("refund"):
            return super().refund_full(tenant_id, run_id)


class SteppedStorage(ObjectStore):
    """A store whose every write is a step."""

    def __init__(self, bucket: str, client: Any, steps: Steps) -> None:
        super().__init__(bucket, lambda: client)
        self._steps = steps

    def put_json(self, key: str, body: bytes) -> None:
        with self._steps.step("put"):
            super().put_json(key, body)
