"""The windows of time of bench/cleanup: when which job ran beside the submits, and what it did."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg

from bench.cleanup.jobs import Done, Job, run
from bench.cleanup.submits import Sampler, Submits
from bench.support.processes import Workers

NOTHING = "nothing"
_GAP_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Window:
    """From `begin` to `end`, by the monotonic clock, the job `label` ran."""

    label: str
    begin: float
    end: float

    def of(self, submits: Submits) -> list[float]:
        return submits.during(self.begin, self.end)


@dataclass(slots=True)
class Windows:
    """All windows so far; what was done and what the sessions waited for, by label."""

    workers: Workers
    url: str
    connection: psycopg.Connection[Any]
    windows: list[Window] = field(default_factory=list)
    done: dict[str, Done] = field(default_factory=dict)
    samples: dict[str, Counter[str]] = field(default_factory=dict)

    def without(self, seconds: float) -> None:
        """A window with nothing beside the submits."""
        sampler, begin = self._sampler(NOTHING), time.monotonic()
        while time.monotonic() < begin + seconds:
            sampler.sample()
            time.sleep(0.05)
        self._add(NOTHING, begin)

    def with_job(self, label: str, job: Job, seconds: float) -> Done:
        sampler, begin = self._sampler(label), time.monotonic()
        [done] = self.workers.run(partial(run, job, self.url, seconds), meanwhile=sampler.sample)
        self._add(label, begin)
        if label in self.done:
            self.done[label] += done
        else:
            self.done[label] = done
        return done

    @property
    def rows(self) -> int:
        return sum(done.rows for done in self.done.values())

    def seconds(self, label: str) -> float:
        """The length of all windows of a label."""
        return sum(one.end - one.begin for one in self.windows if one.label == label)

    def milliseconds(self, label: str, submits: Submits) -> list[float]:
        return [ms for one in self.windows if one.label == label for ms in one.of(submits)]

    def pairs(self, label: str, submits: Submits) -> Iterator[tuple[list[float], list[float]]]:
        """The submits in each window of a label, and those in the two windows around it."""
        for before, one, after in zip(self.windows, self.windows[1:], self.windows[2:], strict=False):
            if one.label == label:
                yield one.of(submits), before.of(submits) + after.of(submits)

    def _sampler(self, label: str) -> Sampler:
        return Sampler(self.connection, self.samples.setdefault(label, Counter()))

    def _add(self, label: str, begin: float) -> None:
        self.windows.append(Window(label, begin, time.monotonic()))
        time.sleep(_GAP_SECONDS)
