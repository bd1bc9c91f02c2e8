"""The processes of bench/cleanup.py: those that submit all the while, and the one that works beside them."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import psycopg

from bench.cleanup_rows import BARE
from bench.crew import SPAWNING, started
from dpp.lifecycle.retention import store as cleanup_store
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import clean
from dpp.lifecycle.retention.control import CleanerEffects, Pace, begin_manual
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.db.postgres import Database
from dpp.registered import registered
from tests.retention.environment import Bucket

SUBMITTERS, PER_SECOND = 2, 25
SUBMITTER_NAME = "submits"
_TICKS = os.sysconf("SC_CLK_TCK")
_BARE = """
DELETE FROM {table} WHERE run_id IN (
  SELECT run_id FROM {table} WHERE status = 'EXPIRED' AND updated_at < now() ORDER BY updated_at LIMIT {limit})
"""
_BODY = {
    "pack_type": "decision",
    "inputs": {"question": "What does moving cost?", "context": "Two monthly rents. " * 20},
    "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 90, "min_reliability_score": 0.8},
}


@dataclass(frozen=True, slots=True)
class Beat:
    """How the work beside goes: rows a batch, how long to rest after it in times of what it took."""

    rows: int
    rest: float


@dataclass(slots=True)
class Worked:
    """What was done beside submits: rows deleted, the seconds that each batch's transaction took, the processor's time
    that client and server needed for them. `over`: nothing is left."""

    rows: int = 0
    batches: list[float] = field(default_factory=list)
    cpu: float = 0.0
    over: bool = False

    def __iadd__(self, other: "Worked") -> "Worked":
        self.rows += other.rows
        self.batches += other.batches
        self.cpu += other.cpu
        self.over = other.over
        return self


type Job = Callable[[Database, float], Worked]


@dataclass(frozen=True, slots=True)
class Ours:
    """The chamberlain himself: a firing of so many seconds on a cleanup of one class."""

    name: str
    beat: Beat

    def __call__(self, database: Database, seconds: float) -> Worked:
        """One firing."""
        worked, rest = Worked(), self.beat.rest

        def sleep(resting: float) -> None:
            worked.batches.append(resting / rest)
            time.sleep(resting)

        classes = [one for one in registered(Retention(), 5) if one.name == self.name]
        effects = CleanerEffects(
            database=database,
            storage=Bucket(),
            classes=classes,
            retention=Retention(),
            zone=ZoneInfo("Asia/Seoul"),
            bounds=Bounds(max_deletes=10**9, factor=10, floor=10_000),
            pace=Pace(batch_rows=self.beat.rows, seconds=seconds, rest=rest, sleep=sleep),
        )
        with database.connection() as connection:
            is_begun = cleanup_store.running(connection) is not None
        if not is_begun:
            begin_manual(effects, "bench", over_breaker=True)
        done = clean(effects)
        assert done.errors == 0, "a batch failed"
        worked.rows, worked.over = done.rows[self.name], bool(done.cleanup and done.cleanup.is_done)
        return worked


@dataclass(frozen=True, slots=True)
class Bare:
    """The floor: as many rows a batch from the table without guards, as restful, and nothing else."""

    beat: Beat

    def __call__(self, database: Database, seconds: float) -> Worked:
        """Batches for so long."""
        worked, until = Worked(), time.monotonic() + seconds
        statement = _BARE.format(table=BARE, limit=self.beat.rows)
        while time.monotonic() < until and not worked.over:
            begun = time.monotonic()
            with database.connection() as connection:
                rows = connection.execute(statement.encode()).rowcount
            worked.batches.append(time.monotonic() - begun)
            worked.rows, worked.over = worked.rows + rows, rows == 0
            time.sleep(self.beat.rest * worked.batches[-1])
        return worked


@dataclass(frozen=True, slots=True)
class Naive:
    """All in one statement, from `runs` itself."""

    def __call__(self, database: Database, _seconds: float) -> Worked:
        """However long it takes."""
        begun = time.monotonic()
        with database.connection() as connection:
            statement = "DELETE FROM runs WHERE status = 'EXPIRED' AND updated_at < now()"
            rows = connection.execute(statement).rowcount
        return Worked(rows, [time.monotonic() - begun], over=True)


@dataclass(frozen=True, slots=True)
class Spin:
    """No database: a processor is used for `busy` seconds, then rests for `resting`; what that alone does to others."""

    busy: float
    resting: float

    def __call__(self, _database: Database, seconds: float) -> Worked:
        """For so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            busy_until = time.process_time() + self.busy
            while time.process_time() < busy_until:
                pass
            time.sleep(self.resting)
        return Worked()


@dataclass(frozen=True, slots=True)
class Worker:
    """The process beside: it is given a job at a time."""

    pipe: Pipe

    def work(self, job: Job, seconds: float, meanwhile: Callable[[], None]) -> Worked:
        """Have a job done; `meanwhile` is called twenty times a second."""
        self.pipe.send((job, seconds))
        while not self.pipe.poll(0.05):
            meanwhile()
        done = self.pipe.recv()
        assert isinstance(done, Worked)
        return done


@contextmanager
def worker(url: str) -> Iterator[Worker]:
    """The process beside."""
    ours, its = SPAWNING.Pipe()
    with started([partial(_work, its, url)]):
        its.close()
        yield Worker(ours)


def _work(pipe: Pipe, url: str) -> None:
    database = Database(url, reply_timeout_seconds=600)
    while True:
        job, seconds = pipe.recv()
        with database.connection() as connection:
            backend = connection.info.backend_pid
        before = time.process_time() + _cpu_seconds(backend)
        worked: Worked = job(database, seconds)
        worked.cpu = time.process_time() + _cpu_seconds(backend) - before
        pipe.send(worked)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True, slots=True)
class Submits:
    """The processes that submit, and what each submit took once they have ended."""

    folder: Path
    ended: list[tuple[float, float]] = field(default_factory=list)
    """When each was begun, by the monotonic clock, and its seconds."""

    def during(self, begin: float, end: float) -> list[float]:
        """The milliseconds of those that were begun in a window."""
        return [1_000 * took for at, took in self.ended if begin <= at < end]


@contextmanager
def submits(environ: dict[str, str], token: str, folder: Path) -> Iterator[Submits]:
    """Submit all the while; the figures are there when the block is over."""
    found, over = Submits(folder), SPAWNING.Event()
    ready = SPAWNING.Barrier(SUBMITTERS + 1)
    logs = [folder / f"submits-{number}" for number in range(SUBMITTERS)]
    with started([partial(_submit, environ, token, ready, over, log) for log in logs]) as processes:
        ready.wait(60)
        yield found
        over.set()
        for process in processes:
            process.join(30)
        for log in logs:
            lines = (line.split() for line in log.read_text().splitlines())
            found.ended.extend((float(at), float(took)) for at, took in lines)


def _submit(environ: dict[str, str], token: str, ready: Any, over: Event, log: Path) -> None:
    """A closed loop through the function's handler: one at a time, so many a second at most."""
    os.environ.update(environ)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the function's log
    from runs_submit.handler import handler  # noqa: PLC0415 - its wiring reads the environment
    from tests.support.api import gateway_event, lambda_context  # noqa: PLC0415

    def submit() -> None:
        headers = {"Authorization": [f"Bearer {token}"], "Content-Type": ["application/json"]}
        headers["Idempotency-Key"] = [f"key-{uuid4()}"]
        answer = handler(gateway_event("POST", "/v1/runs", headers, json.dumps(_BODY)), lambda_context())
        assert answer["statusCode"] == 202, answer["body"]

    for _ in range(50):
        submit()
    ready.wait(60)
    taken, due = [], time.monotonic()
    while not over.is_set():
        due = max(due + 1 / PER_SECOND, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        begun = time.monotonic()
        submit()
        taken.append(f"{begun} {time.monotonic() - begun}\n")
    log.write_text("".join(taken))


@dataclass(slots=True)
class Looks:
    """What the submits' sessions were at when they were looked at: on a processor, or waiting for what."""

    connection: psycopg.Connection[Any]
    found: Counter[str] = field(default_factory=Counter)

    def look(self) -> None:
        """Once."""
        rows = self.connection.execute(
            "SELECT coalesce(wait_event_type || ':' || wait_event, 'processor') FROM pg_stat_activity"
            " WHERE application_name = %s AND state = 'active'",
            (SUBMITTER_NAME,),
        )
        self.found.update(str(row[0]) for row in rows)
