"""The callers of bench/budget.py: processes that wait until they are told what to do, and do it at the same time."""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.budget_postgres import PostgresLedger
from bench.budget_sides import (
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


class Crew:
    """Callers in processes of their own, which wait until they are told what to do."""

    def __init__(self, stack: ExitStack, urls: Mapping[str, str], size: int) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(["bench.budget_callers"])
        self._ends: list[Connection] = []
        for _ in range(size):
            end, other = context.Pipe()
            process = context.Process(target=_caller, args=(other, dict(urls)), daemon=True)
            process.start()
            other.close()
            stack.callback(partial(process.join, 5))
            stack.callback(end.close)
            self._ends.append(end)

    def pairs(self, side: str, callers: int, tenants: int, seconds: float) -> tuple[int, float]:
        """So many of them reserve and settle for so long: how many pairs, and how many a second."""
        told = self._do(callers, ("pairs", side, tenants, seconds))
        return sum(made for made, _ in told), sum(made / took for made, took in told)

    def spend(self, side: str, callers: int) -> int:
        """So many of them ask for what is too little for all; how many requests were admitted."""
        return sum(admitted for admitted, _ in self._do(callers, ("spend", side, 1, 0.0)))

    def _do(self, callers: int, order: tuple[str, str, int, float]) -> list[tuple[int, float]]:
        ends = self._ends[:callers]
        for end in ends:
            end.send(("warm", *order[1:], 0.0))
        for end in ends:
            end.recv()
        begin_at = time.time() + _LEAD_SECONDS
        for end in ends:
            end.send((*order, begin_at))
        return [end.recv() for end in ends]


def _caller(orders: Connection, urls: Mapping[str, str]) -> None:
    sides: dict[str, Side] = {}
    while True:
        try:
            what, name, tenants, seconds, begin_at = orders.recv()
        except EOFError:
            return
        if name not in sides:
            sides[name] = SIDES[name](urls[name])
        side = sides[name]
        time.sleep(max(0.0, begin_at - time.time()))
        if what == "warm":
            orders.send((side.pair(WARM), 0.0))
        elif what == "pairs":
            orders.send(_pairs(side, tenants, seconds))
        else:
            orders.send((_spend(side), 0.0))


def _pairs(side: Side, tenants: int, seconds: float) -> tuple[int, float]:
    """Until the time is over; how many, and how long they took."""
    made, began = 0, time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        made += side.pair(tenant_of(tenants, random.randrange(tenants)))  # noqa: S311 - who comes next
    return made, took


def _spend(side: Side) -> int:
    """Requests one after another, each under way for a while; how many were admitted."""
    admitted = 0
    for _ in range(REQUESTS_EACH):
        run = side.reserve(SHORT)
        time.sleep(UNDER_WAY_SECONDS)
        if run is not None:
            admitted += 1
            side.settle(SHORT, run, RESERVED_USD_MICROS)
    return admitted


def tenant_of(tenants: int, number: int) -> str:
    """The name of one of so many."""
    return f"t_{tenants}_{number}"
