"""The points of a crash: each call of a process, numbered and named as it is made, and one of them made to fail."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NoReturn, Self

LISTED = Path(__file__).parents[1] / "crash" / "points.txt"


class Killed(BaseException):
    """The process is gone. No code of the platform's catches it, so nothing of it runs any more."""


class Kind(StrEnum):
    """How a call goes wrong."""

    KILLED_BEFORE = "killed before"
    """The process is killed before the call."""
    KILLED_AFTER = "killed after"
    """The call took effect; the process is killed before it hears so."""
    REPLY_LOST = "reply lost"
    """The call took effect; the code sees the connection fail, and goes on."""
    REFUSED = "refused"
    """The call was not made; the code sees the connection fail, and goes on."""
    HANGS = "hangs"
    """The call goes nowhere; the code sees it pass its deadline, and goes on."""
    LANDS_LATE = "lands late"
    """The code sees the call pass its deadline, and goes on; it takes effect when the process is done."""


OF_A_READ = (Kind.KILLED_BEFORE, Kind.REFUSED, Kind.HANGS)
"""A call without an effect can't be lost after it: its other kinds are these."""

_OF_A_WRITE = tuple(kind for kind in Kind if kind is not Kind.KILLED_BEFORE)

WHOLE = os.environ.get("DPP_CRASHES") == "all"
"""Whether every kind is tried at every call."""


@dataclass(frozen=True, slots=True)
class Point:
    """One call of one scenario; `number` counts from 1, `writes` says whether the call has an effect."""

    scenario: str
    number: int
    port: str
    call: str
    writes: bool

    @property
    def id(self) -> str:
        """As test ids and points.txt have it."""
        return f"{self.scenario}:{self.number:02}:{self.port}:{self.call}"

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What may befall the call; `make crash` tries all of it, `make test` what leaves something else behind.

        A process killed before a call leaves what one leaves that was killed after the call before it, and to what only
        reads it is the same how it fails.
        """
        if WHOLE:
            return tuple(Kind) if self.writes else OF_A_READ
        before = (Kind.KILLED_BEFORE,) if self.number == 1 else ()
        return before + (_OF_A_WRITE if self.writes else (Kind.REFUSED,))

    def line(self) -> str:
        """The point as a line of points.txt."""
        return f"{self.id} {'writes' if self.writes else 'reads'}"

    @classmethod
    def parse(cls, line: str) -> Self:
        """The point of a line."""
        name, effect = line.rsplit(" ", 1)
        scenario, number, port, call = name.split(":")
        return cls(scenario, int(number), port, call, effect == "writes")


def is_tried(point: Point, kind: Kind) -> bool:
    """`make crash` tries all kinds; `make test` what leaves something else behind.

    A transaction that did not commit left nothing, whatever ended it, and is begun once; what hangs fails as what is
    refused; and what is asked of Postgres is refused as it would be at the call before.
    """
    if kind not in point.kinds:
        return False
    if WHOLE or kind is Kind.KILLED_BEFORE:
        return True
    if point.port != "postgres":
        return kind is not Kind.HANGS
    return point.writes and kind in {Kind.KILLED_AFTER, Kind.REPLY_LOST}


def listed() -> list[Point]:
    """The points as recorded."""
    return [Point.parse(line) for line in LISTED.read_text(encoding="utf-8").splitlines()]


@dataclass(frozen=True, slots=True)
class Call[Result]:
    """One call of a driver: how to make it, and what the driver raises when it fails.

    `late` makes it once more when its caller is gone; None where the server forgets it with the connection.
    `repeated`: the driver sends a call once more whose reply was lost, so that its effect is asked for twice.
    """

    port: str
    name: str
    writes: bool
    make: Callable[[], Result]
    lost: Callable[[], Exception]
    overdue: Callable[[], Exception]
    late: Callable[[], object] | None = None
    repeated: bool = False


class Points:
    """The calls of one process, and at the `at`-th of them (from 1) what goes wrong."""

    def __init__(self, scenario: str, at: int | None = None, kind: Kind | None = None) -> None:
        self.met: list[Point] = []
        self.dead = False
        self._scenario = scenario
        self._at = at
        self._kind = kind
        self._late: list[Callable[[], object]] = []

    def pass_through[Result](self, call: Call[Result]) -> Result:
        """Count the call and make it, unless this is the one that goes wrong."""
        if self.dead:
            raise Killed
        self.met.append(Point(self._scenario, len(self.met) + 1, call.port, call.name, call.writes))
        return call.make() if len(self.met) != self._at else self._fail(call)

    def land(self) -> None:
        """Let what was under way take effect, now that its caller is gone."""
        for late in self._late:
            with suppress(Exception):  # nobody hears of a refusal any more
                late()

    def _die(self) -> NoReturn:
        self.dead = True
        raise Killed

    def _fail[Result](self, call: Call[Result]) -> Result:
        match self._kind:
            case Kind.KILLED_BEFORE:
                self._die()
            case Kind.KILLED_AFTER:
                with suppress(Exception):  # a refusal is a reply like any other
                    call.make()
                self._die()
            case Kind.REPLY_LOST:
                for _ in range(1 + call.repeated):
                    call.make()
                raise call.lost()
            case Kind.REFUSED:
                raise call.lost()
            case Kind.HANGS:
                raise call.overdue()
            case Kind.LANDS_LATE:
                if call.late is not None:
                    self._late.append(call.late)
                raise call.overdue()
            case None:
                pass
        return call.make()
