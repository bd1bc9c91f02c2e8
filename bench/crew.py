"""What benches with several processes share: who is at work, what they used, and which machine it was."""

import multiprocessing
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg

SPAWNING = multiprocessing.get_context("spawn")
_READY_SECONDS = 120
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Share:
    """One process's share of a round, begun when all are ready; in `log` a line of when it began and ended, and its
    processor seconds.
    """

    prefix: str
    count: int
    ready: Barrier
    log: Path

    def do(self, one: Callable[[str], object]) -> None:
        """All of it, one after another, each under a name of its own."""
        self.ready.wait(_READY_SECONDS)
        began, cpu = time.time(), time.process_time()
        for number in range(self.count):
            one(f"{self.prefix}-{number}")
        line = f"{began} {time.time()} {time.process_time() - cpu}\n"
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line)


@dataclass(frozen=True, slots=True)
class Spent:
    """A round's shares together."""

    began: float
    ended: float
    cpu_seconds: float

    @classmethod
    def read(cls, log: Path, shares: int) -> "Spent":
        """What the shares wrote. Raises AssertionError where one has failed."""
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        assert len(lines) == shares, f"{shares - len(lines)} of {shares} processes failed; see above"
        rows = [tuple(float(word) for word in line.split()) for line in lines]
        return cls(min(row[0] for row in rows), max(row[1] for row in rows), sum(row[2] for row in rows))


@contextmanager
def started(targets: Sequence[Callable[[], None]]) -> Iterator[list[BaseProcess]]:
    """These at work in a process each; they are ended with the block."""
    processes = [SPAWNING.Process(target=target, daemon=True) for target in targets]
    for process in processes:
        process.start()
    try:
        yield list(processes)
    finally:
        for process in processes:
            process.kill()
            process.join()


def shared_out(prefix: str, count: int, processes: int, log: Path) -> list[Share]:
    """A round's work, by process."""
    ready = SPAWNING.Barrier(processes)
    return [Share(f"{prefix}-{one}", count // processes, ready, log) for one in range(processes)]


def ends_tidily() -> None:
    """From here on SIGTERM ends the process as an exception does: servers are ended, folders deleted."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time of these processes and of all that they started, as far as the kernel still tells it."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (words := _stat(entry)):
            parents[int(entry.name)] = int(words[1])
            used[int(entry.name)] = sum(int(word) for word in words[11:15]) / _TICKS
    return sum(seconds for pid, seconds in used.items() if _is_of(pid, parents, pids))


def _stat(entry: Path) -> list[str]:
    try:
        return (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _is_of(pid: int, parents: Mapping[int, int], pids: Sequence[int]) -> bool:
    while pid:
        if pid in pids:
            return True
        pid = parents.get(pid, 0)
    return False


def machine(postgres_url: str, packages: Mapping[str, str]) -> str:
    """What is measured on, and with what: `packages` by name, with their versions."""
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SELECT current_setting('server_version')").fetchone()
    assert row is not None
    model = next(
        (line.partition(": ")[2] for line in _cpuinfo() if line.startswith("model name")), platform.machine()
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    said = ", ".join(f"{name} {number}" for name, number in packages.items())
    return (
        f"{model}, {os.process_cpu_count()} cores, {memory:.0f} GiB; {platform.system()} {platform.release()};"
        f" load before {load:.1f}; {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n"
        f"Python {platform.python_version()}, Postgres {row[0]} (flushes to disk), "
        f"psycopg {version('psycopg')}, redis-py {version('redis')}, boto3 {version('boto3')}; {said}"
    )


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median, and all of them."""
    each = " ".join(f"{value:.{digits}f}" for value in values)
    return f"{statistics.median(values):.{digits}f} ({each})"
