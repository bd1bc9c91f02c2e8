"""The processes of bench/cleanup that submit all the time, and samples of what their sessions wait for."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import psycopg

from bench.support.processes import SPAWNING, started
from bench.support.runs import Requests
from bench.support.servers import Place, use

SUBMITTERS, PER_SECOND = 2, 25
_APPLICATION_NAME = "submits"
_SESSIONS = """
SELECT coalesce(wait_event_type || ':' || wait_event, 'processor') FROM pg_stat_activity
WHERE application_name = %s AND state = 'active'
"""


@dataclass(frozen=True, slots=True)
class Submits:
    """Start (monotonic clock) and seconds of each submit; known when the processes have ended."""

    ended: list[tuple[float, float]] = field(default_factory=list)

    def during(self, begin: float, end: float) -> list[float]:
        """The milliseconds of those that began in this time."""
        return [1_000 * took for at, took in self.ended if begin <= at < end]


@contextmanager
def submitting(place: Place, token: str, folder: Path) -> Iterator[Submits]:
    """Submit all the time; the figures are complete when the block ends."""
    submits, over, ready = Submits(), SPAWNING.Event(), SPAWNING.Barrier(SUBMITTERS + 1)
    logs = [folder / f"submits-{number}" for number in range(SUBMITTERS)]
    with started([partial(_submit, place, token, ready, over, log) for log in logs]) as processes:
        ready.wait(60)
        yield submits
        over.set()
        for process in processes:
            process.join(30)
        for log in logs:
            lines = (line.split() for line in log.read_text().splitlines())
            submits.ended.extend((float(at), float(took)) for at, took in lines)


def _submit(place: Place, token: str, ready: Barrier, over: Event, log: Path) -> None:
    """A closed loop through the function's handler: one submit at a time, `PER_SECOND` at most."""
    use(place)
    os.environ["PGAPPNAME"] = _APPLICATION_NAME
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the function's log
    requests = Requests(token)
    for _ in range(50):
        requests.submit()
    ready.wait(60)
    lines, due = [], time.monotonic()
    while not over.is_set():
        due = max(due + 1 / PER_SECOND, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        began = time.monotonic()
        requests.submit()
        lines.append(f"{began} {time.monotonic() - began}\n")
    log.write_text("".join(lines))


@dataclass(slots=True)
class Sampler:
    """Counts what the submits' sessions are doing: using a processor, or waiting for something."""

    connection: psycopg.Connection[Any]
    found: Counter[str] = field(default_factory=Counter)

    def sample(self) -> None:
        rows = self.connection.execute(_SESSIONS, (_APPLICATION_NAME,))
        self.found.update(str(row[0]) for row in rows)
