"""Crash points: every call of a process to a server, numbered and named, and one of them made to fail."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

CRASH_ALL = os.environ.get("DPP_CRASHES") == "all"
"""True if every kind of fault is tried at every call (`make crash`)."""


class Killed(BaseException):
    """The process is gone. No code of the platform catches this."""


class FaultKind(StrEnum):
    """Kinds of faults of a call."""

    KILLED_BEFORE = "killed before"
    """The process is killed before the call."""
    KILLED_AFTER = "killed after"
    """The call took effect; the process is killed before it receives the reply."""
    REPLY_LOST = "reply lost"
    """The call took effect; the code sees the connection fail, and goes on."""
    REFUSED = "refused"
    """The call was not made; the code sees the connection fail, and goes on."""
    HANGS = "hangs"
    """The call was not made; the code sees it pass its deadline, and goes on."""
    LANDS_LATE = "lands late"
    """The code sees the call pass its deadline, and goes on; the call takes effect when the process has ended."""


_OF_A_READ = (FaultKind.KILLED_BEFORE, FaultKind.REFUSED, FaultKind.HANGS)
"""A read has no effect, so losing its reply is the same as refusing it."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """One call of an act; `number` counts from 1, `writes` says whether the call has an effect."""

    act: str
    number: int
    port: str
    call: str
    writes: bool
    in_transaction: bool = False

    @property
    def name(self) -> str:
        """Port and call."""
        return f"{self.port}.{self.call}"

    def __str__(self) -> str:
        return f"{self.act}:{self.number:02}:{self.name}"


@dataclass(frozen=True, slots=True)
class Call[Result]:
    """One call of a driver: how to make it, and what the driver raises when it fails.

    `late` makes it once more after its process has ended; None where the server undoes it with the connection.
    `repeated`: the driver sends a call again whose reply was lost, so its effect is requested twice.
    """

    port: str
    name: str
    writes: bool
    make: Callable[[], Result]
    lost: Callable[[], Exception]
    overdue: Callable[[], Exception]
    late: Callable[[], object] | None = None
    repeated: bool = False
    in_transaction: bool = False


class FaultInjector:
    """Records the calls of one process, and makes the `at`-th of them (from 1) fail."""

    def __init__(self, act: str, at: int | None = None, kind: FaultKind | None = None) -> None:
        self.points: list[CrashPoint] = []
        self.dead = False
        self._act = act
        self._at = at
        self.kind = kind
        self._late: list[Callable[[], object]] = []

    def pass_through[Result](self, call: Call[Result]) -> Result:
        """Record the call and make it, unless it is the one that fails."""
        if self.dead:
            raise Killed
        number = len(self.points) + 1
        self.points.append(CrashPoint(self._act, number, call.port, call.name, call.writes, call.in_transaction))
        return call.make() if number != self._at else self._fail(call)

    def land(self) -> None:
        """Let late calls take effect, now that their process has ended."""
        for late in self._late:
            with suppress(Exception):  # the process is gone and receives no error
                late()

    def _die(self) -> NoReturn:
        self.dead = True
        raise Killed

    def _fail[Result](self, call: Call[Result]) -> Result:
        match self.kind:
            case FaultKind.KILLED_BEFORE:
                self._die()
            case FaultKind.KILLED_AFTER:
                with suppress(Exception):  # an error is a reply, too
                    call.make()
                self._die()
            case FaultKind.REPLY_LOST:
                for _ in range(1 + call.repeated):
                    call.make()
                raise call.lost()
            case FaultKind.REFUSED:
                raise call.lost()
            case FaultKind.HANGS:
                raise call.overdue()
            case FaultKind.LANDS_LATE:
                if call.late is not None:
                    self._late.append(call.late)
                raise call.overdue()
            case None:
                pass
        return call.make()


def crashes_of(points: list[CrashPoint]) -> list[tuple[CrashPoint, FaultKind]]:
    """All crashes of an act: `make crash` tries every kind at every call, `make test` one of each outcome."""
    if CRASH_ALL:
        return [(point, kind) for point in points for kind in (FaultKind if point.writes else _OF_A_READ)]
    seen = set[str]()
    return [(point, kind) for point in points for kind in _distinct_kinds(point, seen)]


def _distinct_kinds(point: CrashPoint, seen: set[str]) -> tuple[FaultKind, ...]:
    """The kinds that leave something different behind.

    A process that is killed before a call leaves the same as one that was killed after the call before it. A call that
    hangs leaves the same as one that is refused. A statement in a transaction leaves nothing, however it ends: it
    fails once. A read of Postgres fails once an act.
    """
    first = (FaultKind.KILLED_BEFORE,) if point.number == 1 else ()
    is_new = point.name not in seen
    seen.add(point.name)
    if not point.writes:
        return (*first, FaultKind.REFUSED) if is_new or point.port != "postgres" else first
    if point.in_transaction:
        return (*first, FaultKind.REPLY_LOST)
    if point.call == "commit transaction":
        return (*first, FaultKind.KILLED_AFTER, FaultKind.REPLY_LOST)
    return (*first, FaultKind.KILLED_AFTER, FaultKind.REPLY_LOST, FaultKind.REFUSED, FaultKind.LANDS_LATE)
