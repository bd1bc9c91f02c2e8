"""Replaces the real code's clock, ids, threads and drivers while simulations run.

The domain code itself stays unchanged: the patches replace what its modules import (`datetime`, `uuid4`, `threading`,
`time`) and psycopg's connect.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, tzinfo
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from dpp.platform import ids, retry
from dpp.platform.db import postgres
from dpp.runs import envelope, lease, submit
from dpp.runs.jobs import batch, reconcile
from tests.sim.database import BEGINNING
from tests.sim.faults import Fault
from tests.sim.ports import SimConnection
from tests.sim.scheduler import Actor

if TYPE_CHECKING:
    from tests.sim.simulation import Simulation


class _Holder:
    running: ClassVar["Simulation | None"] = None


def running() -> "Simulation":
    """The simulation in which the patched code runs."""
    assert _Holder.running is not None
    return _Holder.running


def local_ms() -> int:
    """The current function's own clock, which can be wrong."""
    scheduler = running().scheduler
    return scheduler.now_ms + scheduler.current.process.skew_ms


class _Datetime(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "datetime":  # type: ignore[override]
        return BEGINNING + timedelta(milliseconds=local_ms())


class _Event:
    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        return running().scheduler.wait(int(timeout * 1000), self.is_set)


class _Thread:
    def __init__(self, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target = target
        self._actor: Actor | None = None

    def start(self) -> None:
        scheduler = running().scheduler
        current = scheduler.current
        if not running().strikes(Fault.HEARTBEAT_STILL):
            self._actor = scheduler.spawn(f"{current.name} heartbeat", self._target, current.process)

    def join(self) -> None:
        if self._actor is not None:
            running().scheduler.await_end(self._actor)


class _Connection:
    @staticmethod
    def connect(_url: str, **_: object) -> SimConnection:
        return running().connect()


def _sleep(seconds: float) -> None:
    running().scheduler.wait(int(seconds * 1000))


@contextmanager
def patched() -> Iterator[None]:
    """Apply all patches; simulations can run inside."""
    threads = SimpleNamespace(Event=_Event, Thread=_Thread)
    clock = SimpleNamespace(monotonic=lambda: running().scheduler.now_ms / 1000)
    patches: list[Any] = [
        patch.object(ids, "uuid4", lambda: running().new_id()),
        patch.object(submit, "datetime", _Datetime),
        patch.object(reconcile, "datetime", _Datetime),
        patch.object(envelope, "datetime", _Datetime),
        patch.object(batch, "time", clock),
        patch.object(lease, "threading", threads),
        patch.object(postgres, "_Connection", _Connection),
        patch.dict(retry.with_retries.__kwdefaults__ or {}, {"sleep": _sleep}),
    ]
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        yield


@contextmanager
def belonging_to(simulation: "Simulation") -> Iterator[None]:
    """Let the patched code act in this simulation."""
    _Holder.running = simulation
    try:
        yield
    finally:
        _Holder.running = None
