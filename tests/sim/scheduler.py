"""Runs actors on threads, exactly one at a time; every call of a port decides which actor continues.

The running actor holds the baton. At a yield point it decides which actor is next, and hands the baton over only if
that is another one: most steps need no thread switch. Time is a number. It advances by 1 ms a step, and jumps to the
next due time when every actor waits.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from tests.sim.choices import Choices

MAX_STEPS = 6_000
_NEVER = 1 << 62
_TURNS = 12
"""More than the number of actors, so that each of them can be chosen."""


class Vanished(BaseException):
    """The process that made this call has died: nothing after the call happens."""


class Stuck(Exception):
    """The actors wait for each other, or they do not end."""


@dataclass(slots=True, eq=False)
class Process:
    """One invocation of a function. Its actors die together and share a clock."""

    name: str
    deadline_ms: int = _NEVER
    skew_ms: int = 0
    dead: bool = False


@dataclass(slots=True, eq=False)
class Actor:
    """One thread of control."""

    name: str
    process: Process
    thread: "_Thread"
    wake_at_ms: int = 0
    ready: Callable[[], bool] | None = None
    done: bool = False


class _Thread:
    """A thread that is reused by later actors, because starting one costs more than a step."""

    free: ClassVar[list["_Thread"]] = []

    def __init__(self) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.body: Callable[[], None] = _nothing
        threading.Thread(target=self._serve, name="sim-actor", daemon=True).start()

    @classmethod
    def take(cls) -> "_Thread":
        """A free thread, or a new one."""
        return cls.free.pop() if cls.free else cls()

    def _serve(self) -> None:
        while True:
            self.baton.acquire()
            self.body()


@dataclass(slots=True)
class Scheduler:
    """Decides which actor continues, and holds the time (in ms since the beginning of the simulation)."""

    choices: Choices
    now_ms: int = 0
    switch_rate: float = 0.5
    steps: int = 0
    error: BaseException | None = None
    error_by: str = ""
    _actors: list[Actor] = field(default_factory=list)
    _current: Actor | None = None
    _main: threading.Lock = field(default_factory=threading.Lock)

    @property
    def current(self) -> Actor:
        """The actor that holds the baton."""
        assert self._current is not None, "a port was called outside the simulation"
        return self._current

    def spawn(self, name: str, body: Callable[[], None], process: Process | None = None) -> Actor:
        """Add an actor, which starts when it is chosen. Its default process has no deadline."""
        actor = Actor(name, process or Process(name), _Thread.take(), self.now_ms)
        actor.thread.body = lambda: self._live(actor, body)
        self._actors.append(actor)
        return actor

    def run(self) -> None:
        """Run all actors until they are done. Raises the error of an actor."""
        self._main.acquire()
        self._hand_over(self._choose())
        self._main.acquire()
        self._main.release()
        if self.error is not None:
            raise self.error

    def step(self) -> None:
        """A yield point. Raises Vanished if the caller's process has died."""
        self.steps += 1
        self.now_ms += 1
        if self.steps > MAX_STEPS:
            self._fail(Stuck(f"the actors have not ended after {MAX_STEPS} steps"))
        turn = self.choices.rarely(self.switch_rate, _TURNS)
        if turn:
            others = [actor for actor in self._runnable() if actor is not self._current]
            if others:
                self._yield_to(others[turn % len(others)])
        self._raise_if_dead()

    def wait(self, milliseconds: int, ready: Callable[[], bool] | None = None) -> bool:
        """Wait until `ready`, for `milliseconds` at most; whether it is ready. Raises Vanished, as `step` does."""
        actor = self.current
        actor.wake_at_ms, actor.ready = self.now_ms + milliseconds, ready
        chosen = self._choose()
        if chosen is not actor:
            self._yield_to(chosen)
        actor.wake_at_ms, actor.ready = 0, None
        self._raise_if_dead()
        return ready is not None and ready()

    def await_end(self, awaited: Actor) -> None:
        """Wait until another actor is done."""
        self.wait(_NEVER - self.now_ms, lambda: awaited.done)

    def _yield_to(self, chosen: Actor) -> None:
        baton = self.current.thread.baton
        self._hand_over(chosen)
        baton.acquire()

    def _raise_if_dead(self) -> None:
        process = self.current.process
        if process.dead or self.error is not None:
            raise Vanished
        if self.now_ms > process.deadline_ms:
            process.dead = True
            raise Vanished

    def _live(self, actor: Actor, body: Callable[[], None]) -> None:
        try:
            actor.wake_at_ms, actor.ready = 0, None
            if self.error is None and not actor.process.dead:
                body()
        except Vanished:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by `run`
            self._fail(error)
        actor.done = True
        self._actors.remove(actor)
        _Thread.free.append(actor.thread)
        if self._actors:
            self._hand_over(self._choose())
        else:
            self._main.release()

    def _fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error, self.error_by = error, self.current.name

    def _hand_over(self, chosen: Actor) -> None:
        self._current = chosen
        chosen.thread.baton.release()

    def _choose(self) -> Actor:
        """The actor that continues; time jumps if all wait."""
        can = self._runnable()
        if not can:
            earliest = min(actor.wake_at_ms for actor in self._actors)
            if earliest >= _NEVER:
                self._fail(Stuck("every actor waits for another"))
                return self._actors[0]
            self.now_ms = max(self.now_ms, earliest)
            can = self._runnable()
        return can[self.choices.pick(len(can))]

    def _runnable(self) -> list[Actor]:
        if self.error is not None:
            return list(self._actors)
        now = self.now_ms
        return [
            actor
            for actor in self._actors
            if actor.wake_at_ms <= now or actor.process.dead or (actor.ready is not None and actor.ready())
        ]


def _nothing() -> None:
    raise AssertionError("a thread was woken without an actor")
