"""Workers as processes of their own that are killed by SIGKILL and replaced at once."""

import multiprocessing
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess

# Forked from a server that has imported the modules, a worker runs within a tenth of a second.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.support.worker_preload"])


@dataclass(slots=True)
class Workers:
    """Running workers; each target is the name of its kind and what a process of it does."""

    targets: Sequence[tuple[str, Callable[[], None]]]
    chance: random.Random
    running: dict[int, ForkServerProcess] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def start(self, number: int) -> None:
        """Start one worker."""
        process = _PROCESSES.Process(target=self.targets[number][1], daemon=True)
        process.start()
        self.running[number] = process

    def replace_dead(self) -> None:
        """Replace workers that killed themselves."""
        for number in [number for number, process in self.running.items() if not process.is_alive()]:
            self.end(number)
            self.start(number)

    def kill(self, kind: str | None = None) -> None:
        """Kill one worker (of a kind), whatever it is doing, and replace it."""
        number = self.chance.choice([number for number, (name, _) in enumerate(self.targets) if kind in (None, name)])
        self.end(number)
        self.kills[self.targets[number][0]] += 1
        self.start(number)

    def end(self, number: int) -> None:
        """Kill one worker; it must not have ended by itself."""
        process = self.running.pop(number)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        process.close()


@contextmanager
def running_workers(targets: Sequence[tuple[str, Callable[[], None]]], seed: int = 4) -> Iterator[Workers]:
    """All workers, killed at the end."""
    workers = Workers(targets, random.Random(seed))
    try:
        for number in range(len(targets)):
            workers.start(number)
        yield workers
    finally:
        for number in list(workers.running):
            workers.end(number)
