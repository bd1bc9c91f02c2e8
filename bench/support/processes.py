"""Worker processes of the benches: start them together, share the work out, and read the processor time they used."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Self

SPAWNING = multiprocessing.get_context("spawn")
_READY_SECONDS = 120
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Share:
    """The calls that one process makes. It begins when all processes are ready.

    `per_second` None: one call right after another. `log` gets a line: when the share began and ended (seconds since
    the epoch), and its processor seconds.
    """

    prefix: str
    count: int
    ready: Barrier
    log: Path
    per_second: float | None = None

    def do(self, call: Callable[[str, float], object]) -> None:
        """Make each call, with a name and the time at which it is due."""
        self.ready.wait(_READY_SECONDS)
        began, cpu = time.time(), time.process_time()
        for number in range(self.count):
            due = began
            if self.per_second:
                due += number / self.per_second
                time.sleep(max(0.0, due - time.time()))
            call(f"{self.prefix}-{number}", due)
        line = f"{began} {time.time()} {time.process_time() - cpu}\n"
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line)


@dataclass(frozen=True, slots=True)
class Spent:
    """The first begin, the last end and the processor time of all shares."""

    began: float
    ended: float
    cpu_seconds: float


def run_shares(
    target: Callable[[Share], None],
    prefix: str,
    count: int,
    processes: int,
    log: Path,
    *,
    per_second: float | None = None,
) -> Spent:
    """Divide `count` calls among new processes and wait for them. Raises AssertionError if one of them failed."""
    ready, pace = SPAWNING.Barrier(processes), per_second and per_second / processes
    shares = [Share(f"{prefix}-{one}", count // processes, ready, log, pace) for one in range(processes)]
    with started([partial(target, share) for share in shares]) as running:
        for process in running:
            process.join()
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    assert len(lines) == processes, f"{processes - len(lines)} of {processes} processes failed; see above"
    rows = [tuple(float(word) for word in line.split()) for line in lines]
    return Spent(min(row[0] for row in rows), max(row[1] for row in rows), sum(row[2] for row in rows))


@contextmanager
def started(targets: Sequence[Callable[[], None]]) -> Iterator[list[BaseProcess]]:
    """Run each target in a process of its own; the block's end kills them."""
    processes = [SPAWNING.Process(target=target, daemon=True) for target in targets]
    for process in processes:
        process.start()
    try:
        yield list(processes)
    finally:
        for process in processes:
            process.kill()
            process.join()


class Workers:
    """Processes that wait for jobs and keep their connections between them."""

    def __init__(self, size: int, preload: Sequence[str] = ()) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*preload])
        self._pipes = []
        for _ in range(size):
            end, its = context.Pipe()
            context.Process(target=_run_jobs, args=(its,), daemon=True).start()
            its.close()
            self._pipes.append(end)

    def run[T](self, job: Callable[[], T], workers: int = 1, meanwhile: Callable[[], None] | None = None) -> list[T]:
        """Run a job in some of the processes at the same time; `meanwhile` is called twenty times a second."""
        pipes = self._pipes[:workers]
        for pipe in pipes:
            pipe.send(job)
        while meanwhile is not None and not pipes[0].poll(0.05):
            meanwhile()
        return [pipe.recv() for pipe in pipes]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()


def _run_jobs(pipe: Connection) -> None:
    with suppress(EOFError):
        while True:
            pipe.send(pipe.recv()())


def wait_until(is_done: Callable[[], bool], failure: str, seconds: float = 120, every: float = 0.05) -> None:
    """Poll a condition. Raises AssertionError with `failure` after `seconds`."""
    until = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < until, failure
        time.sleep(every)


def rounds_in_time(rounds: int, seconds: float = 225) -> Iterator[int]:
    """Number the rounds; none begins that would end after `seconds`."""
    began = time.monotonic()
    for number in range(rounds):
        if number and (time.monotonic() - began) * (number + 1) / number > seconds:
            print(f"{number} of {rounds} rounds: no time for more\n")
            return
        yield number


def exit_on_sigterm() -> None:
    """Make SIGTERM raise SystemExit, so that servers are stopped and folders deleted."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time of these processes and their descendants, including those that ended and were waited for."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (words := _stat(entry)):
            parents[int(entry.name)] = int(words[1])
            used[int(entry.name)] = sum(int(word) for word in words[11:15]) / _CLOCK_TICKS
    return sum(seconds for pid, seconds in used.items() if _descends(pid, parents, pids))


def _stat(entry: Path) -> list[str]:
    try:
        return (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _descends(pid: int, parents: Mapping[int, int], ancestors: Sequence[int]) -> bool:
    while pid:
        if pid in ancestors:
            return True
        pid = parents.get(pid, 0)
    return False
