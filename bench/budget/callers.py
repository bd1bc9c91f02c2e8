"""The callers of bench/budget: processes that wait for commands and run them at the same time."""

import random
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

from bench.budget.postgres import PostgresLedger
from bench.budget.sides import (
    RESERVED_USD_MICROS,
    Floor,
    LiteLlmAfterwards,
    LiteLlmReserving,
    Ours,
    Pipelined,
    Side,
)

SHORT, WARM = "t_short", "t_warm"
REQUESTS_EACH, UNDER_WAY_SECONDS = 5, 0.02
_LEAD_SECONDS = 0.1

SIDES: Mapping[str, Callable[[str], Side]] = {
    "ours": Ours,
    "floor": Floor,
    "pipelined": Pipelined,
    "postgres": PostgresLedger,
    "litellm, reserving": LiteLlmReserving,
    "litellm, afterwards": LiteLlmAfterwards,
}


class Callers:
    """Processes that each run one command at a time."""

    def __init__(self, urls: Mapping[str, str], size: int) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["bench.budget.callers"])
        pipes = [context.Pipe() for _ in range(size)]
        self._ends = [end for end, _ in pipes]
        self._processes = [
            context.Process(target=_caller, args=(its, dict(urls)), daemon=True) for _, its in pipes
        ]
        for process, (_, its) in zip(self._processes, pipes, strict=True):
            process.start()
            its.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for end, process in zip(self._ends, self._processes, strict=True):
            end.close()
            process.join(5)

    def pairs(self, side: str, callers: int, tenants: int, seconds: float) -> tuple[int, float]:
        """Reserve and settle for so long. Returns how many pairs, and how many a second."""
        done = self._run(callers, ("pairs", side, tenants, seconds))
        return sum(pairs for pairs, _ in done), sum(pairs / took for pairs, took in done)

    def spend(self, side: str, callers: int) -> int:
        """Compete for a budget that is too small for all. Returns how many requests were admitted."""
        return sum(admitted for admitted, _ in self._run(callers, ("spend", side, 1, 0.0)))

    def _run(self, callers: int, command: tuple[str, str, int, float]) -> list[tuple[int, float]]:
        ends = self._ends[:callers]
        for end in ends:
            end.send(("warm", *command[1:], 0.0))
        for end in ends:
            end.recv()
        begin_at = time.time() + _LEAD_SECONDS
        for end in ends:
            end.send((*command, begin_at))
        return [end.recv() for end in ends]


def _caller(commands: Connection, urls: Mapping[str, str]) -> None:
    sides: dict[str, Side] = {}
    while True:
        try:
            command, name, tenants, seconds, begin_at = commands.recv()
        except EOFError:
            return
        side = sides[name] = sides.get(name) or SIDES[name](urls[name])
        time.sleep(max(0.0, begin_at - time.time()))
        if command == "warm":
            commands.send((side.pair(WARM), 0.0))
        elif command == "pairs":
            commands.send(_pairs(side, tenants, seconds))
        else:
            commands.send((_spend(side), 0.0))


def _pairs(side: Side, tenants: int, seconds: float) -> tuple[int, float]:
    """Returns how many pairs were done, and how long they took."""
    done, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        done += side.pair(tenant_of(tenants, random.randrange(tenants)))  # noqa: S311 - not secret
    return done, took


def _spend(side: Side) -> int:
    """Make requests one after another, each under way for a while. Returns how many were admitted."""
    admitted = 0
    for _ in range(REQUESTS_EACH):
        run = side.reserve(SHORT)
        time.sleep(UNDER_WAY_SECONDS)
        if run is not None:
            admitted += 1
            side.settle(SHORT, run, RESERVED_USD_MICROS)
    return admitted


def tenant_of(tenants: int, number: int) -> str:
    """The name of one of so many tenants."""
    return f"t_{tenants}_{number}"
