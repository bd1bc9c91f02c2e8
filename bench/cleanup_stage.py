"""The windows of bench/cleanup.py: when what went on beside the submits, and what of it came."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.cleanup_beside import Job, Looks, Submits, Worked, Worker

OFF = "nothing"
_GAP_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when, by the monotonic clock, what was beside the submits."""

    label: str
    begin: float
    end: float

    def of(self, submitted: Submits) -> list[float]:
        """The milliseconds of its submits."""
        return submitted.during(self.begin, self.end)


@dataclass(slots=True)
class Stage:
    """The windows so far, with what was done in them by label."""

    beside: Worker
    connection: psycopg.Connection[Any]
    windows: list[Window] = field(default_factory=list)
    worked: dict[str, Worked] = field(default_factory=dict)
    looks: dict[str, Counter[str]] = field(default_factory=dict)

    def off(self, seconds: float) -> None:
        """A window with nothing beside."""
        looks, begin = self._looks(OFF), time.monotonic()
        while time.monotonic() < begin + seconds:
            looks.look()
            time.sleep(0.05)
        self._keep(OFF, begin)

    def on(self, label: str, job: Job, seconds: float) -> Worked:
        """A window with a job beside."""
        looks, begin = self._looks(label), time.monotonic()
        done = self.beside.work(job, seconds, looks.look)
        self._keep(label, begin)
        if label in self.worked:
            self.worked[label] += done
        else:
            self.worked[label] = done
        return done

    @property
    def rows(self) -> int:
        """All that were deleted so far."""
        return sum(worked.rows for worked in self.worked.values())

    def seconds(self, label: str) -> float:
        """Of all windows of a label."""
        return sum(one.end - one.begin for one in self.windows if one.label == label)

    def pairs(self, label: str, submitted: Submits) -> Iterator[tuple[list[float], list[float]]]:
        """The submits of each window of a label, and those of the windows around it."""
        for before, one, after in zip(self.windows, self.windows[1:], self.windows[2:], strict=False):
            if one.label == label:
                yield one.of(submitted), before.of(submitted) + after.of(submitted)

    def _looks(self, label: str) -> Looks:
        return Looks(self.connection, self.looks.setdefault(label, Counter()))

    def _keep(self, label: str, begin: float) -> None:
        self.windows.append(Window(label, begin, time.monotonic()))
        time.sleep(_GAP_SECONDS)
