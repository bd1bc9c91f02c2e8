"""The jobs that run beside the submits of bench/cleanup, in a process of their own."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from bench.cleanup.rows import UNGUARDED
from bench.support.processes import cpu_seconds
from dpp.lifecycle.retention import store as cleanup_store
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import clean
from dpp.lifecycle.retention.control import CleanerEffects, Pace, start_manual
from dpp.lifecycle.retention.periods import Retention
from dpp.platform.db.postgres import Database
from dpp.registered import registered
from tests.support.memory_s3 import MemoryS3

_DELETE_BATCH = """
DELETE FROM {table} WHERE run_id IN (
  SELECT run_id FROM {table} WHERE status = 'EXPIRED' AND updated_at < now() ORDER BY updated_at LIMIT {limit})
"""


class Batching(NamedTuple):
    """Rows in a batch, and how long to rest after it as a multiple of the time that it took."""

    rows: int
    rest: float


@dataclass(slots=True)
class Done:
    """Deleted rows, the seconds of each batch's transaction, and the processor time that client and server used."""

    rows: int = 0
    batches: list[float] = field(default_factory=list)
    cpu: float = 0.0
    is_over: bool = False
    """Nothing is left to delete."""

    def __iadd__(self, other: "Done") -> "Done":
        self.rows += other.rows
        self.batches += other.batches
        self.cpu += other.cpu
        self.is_over = other.is_over
        return self


type Job = Callable[[Database, float], Done]


@dataclass(frozen=True, slots=True)
class Cleanup:
    """The cleaner itself: one tick of so many seconds on a cleanup of one class."""

    name: str
    batching: Batching

    def __call__(self, database: Database, seconds: float) -> Done:
        done, (rows, rest) = Done(), self.batching

        def sleep(resting: float) -> None:
            done.batches.append(resting / rest)
            time.sleep(resting)

        effects = CleanerEffects(
            database=database,
            storage=MemoryS3().store(),
            classes=[one for one in registered(Retention(), 5) if one.name == self.name],
            retention=Retention(),
            zone=ZoneInfo("Asia/Seoul"),
            bounds=Bounds(max_deletes=10**9, factor=10, floor=10_000),
            pace=Pace(batch_rows=rows, seconds=seconds, rest=rest, sleep=sleep),
        )
        with database.connection() as connection:
            is_running = cleanup_store.running(connection) is not None
        if not is_running:
            start_manual(effects, "bench", over_breaker=True)
        report = clean(effects)
        assert report.errors == 0, "a batch failed"
        done.rows, done.is_over = report.rows[self.name], bool(report.cleanup and report.cleanup.is_done)
        return done


@dataclass(frozen=True, slots=True)
class BareDeletes:
    """The floor: the same batches and rests on the table without guards, and nothing else."""

    batching: Batching

    def __call__(self, database: Database, seconds: float) -> Done:
        done, until = Done(), time.monotonic() + seconds
        statement = _DELETE_BATCH.format(table=UNGUARDED, limit=self.batching.rows)
        while time.monotonic() < until and not done.is_over:
            began = time.monotonic()
            with database.connection() as connection:
                rows = connection.execute(statement.encode()).rowcount
            done.batches.append(time.monotonic() - began)
            done.rows, done.is_over = done.rows + rows, rows == 0
            time.sleep(self.batching.rest * done.batches[-1])
        return done


@dataclass(frozen=True, slots=True)
class OneDelete:
    """The naive way: all rows of `runs` in one statement, however long it takes."""

    def __call__(self, database: Database, _seconds: float) -> Done:
        began = time.monotonic()
        with database.connection() as connection:
            statement = "DELETE FROM runs WHERE status = 'EXPIRED' AND updated_at < now()"
            rows = connection.execute(statement).rowcount
        return Done(rows, [time.monotonic() - began], is_over=True)


@dataclass(frozen=True, slots=True)
class Spin:
    """The control: uses a processor for `busy` seconds, then rests, without a database."""

    busy: float
    resting: float

    def __call__(self, _database: Database, seconds: float) -> Done:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            busy_until = time.process_time() + self.busy
            while time.process_time() < busy_until:
                pass
            time.sleep(self.resting)
        return Done()


def run(job: Job, url: str, seconds: float) -> Done:
    """Run a job in a worker process."""
    database = _database(url)
    with database.connection() as connection:
        backend = connection.info.backend_pid
    before = cpu_seconds([backend]) + time.process_time()
    done = job(database, seconds)
    done.cpu = time.process_time() + cpu_seconds([backend]) - before
    return done


@cache
def _database(url: str) -> Database:
    return Database(url, reply_timeout_seconds=600)
