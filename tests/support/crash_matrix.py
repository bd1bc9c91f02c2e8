"""Crashes every call of an act in every way, lets the platform recover, and checks what must hold then.

The points are recorded from the code as it runs, so a new call is crashed without being listed anywhere.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from dpp.platform.errors import DependencyUnavailable
from tests.support.crash_points import CrashPoint, FaultInjector, FaultKind, Killed, crashes_of
from tests.support.saved_tables import SavedTables

type Plant = Callable[[pytest.MonkeyPatch], None]
"""Plants a fault that a crash suite must find."""


class CrashSuite(ABC):
    """The acts of one context; an act is what one process does. Each is set up once and restored for every crash."""

    expected: tuple[type[Exception], ...] = (DependencyUnavailable,)
    """Exceptions that may end an act besides a kill."""

    def __init__(self, tables: SavedTables) -> None:
        self.tables = tables
        self._saved: dict[str, Any] = {}

    @abstractmethod
    def set_up(self, act: str) -> None:
        """Bring everything to where the act begins; the tables are empty."""

    def state(self) -> Any:
        """A copy of what is not in the tables."""
        return None

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Bring back what is not in the tables; with None as it is before any setup."""

    @abstractmethod
    def perform(self, act: str, injector: FaultInjector) -> None:
        """Let a process act; each of its calls goes through the injector."""

    @abstractmethod
    def recover(self, act: str) -> None:
        """Let time pass and healthy processes run, until nothing is left to do."""

    @abstractmethod
    def violations(self, act: str) -> Iterable[str]:
        """Each invariant that does not hold after the recovery."""

    def violations_at_crash(self, act: str) -> Iterable[str]:
        """Each invariant that does not hold even before the recovery."""
        return ()

    def arrange(self, act: str) -> None:
        """Bring everything to where the act begins."""
        if act not in self._saved:
            self.tables.empty()
            self.restore(None)
            self.set_up(act)
            self.tables.save(act)
            self._saved[act] = self.state()
        self.tables.restore(act)
        self.restore(self._saved[act])

    def play(self, act: str, injector: FaultInjector) -> None:
        """Arrange the act, and let it run until it is done, fails or is killed."""
        self.arrange(act)
        with suppress(Killed, *self.expected):
            self.perform(act, injector)
        injector.land()

    def record(self, act: str) -> list[CrashPoint]:
        """The calls of the act where nothing fails."""
        injector = FaultInjector(act)
        self.play(act, injector)
        return injector.points

    def calls_of_clean_run(self, act: str) -> set[str]:
        """The names of the act's calls; nothing fails, and everything holds."""
        points = self.record(act)
        self.recover(act)
        assert list(self.violations(act)) == []
        return {point.name for point in points}

    def crash(self, act: str, point: CrashPoint, kind: FaultKind) -> list[str]:
        """Crash one call; the violations."""
        injector = FaultInjector(act, at=point.number, kind=kind)
        self.play(act, injector)
        assert injector.points[point.number - 1 :][:1] == [point], "the act makes other calls than it did before"
        found = [f"at the crash: {one}" for one in self.violations_at_crash(act)]
        self.recover(act)
        return [f"{point}, {kind}: {one}" for one in (*found, *self.violations(act))]

    def crash_everywhere(self, act: str) -> Iterator[str]:
        """Crash every call of the act, one after the other; each violation, with its point and kind."""
        for point, kind in crashes_of(self.record(act)):
            yield from self.crash(act, point, kind)
