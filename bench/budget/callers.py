"""The callers of bench/budget: processes that reserve and settle at the same time, each on its own connections."""

import random
import time
from collections.abc import Callable, Mapping
from functools import cache, partial

from bench.budget.postgres import PostgresLedger
from bench.budget.sides import RESERVED_USD_MICROS, Floor, LiteLlmAfterwards, LiteLlmReserving, Ours, Pipelined, Side
from bench.support.processes import Workers

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
    """Up to `size` callers of each side."""

    def __init__(self, urls: Mapping[str, str], size: int) -> None:
        self._urls, self.workers = urls, Workers(size, preload=["bench.budget.callers"])

    def pairs(self, name: str, callers: int, tenants: int, seconds: float) -> tuple[int, float]:
        """Reserve and settle for so long. Returns how many pairs, and how many a second."""
        done = self._run(name, callers, partial(_pairs, name, self._urls[name], tenants, seconds))
        return sum(pairs for pairs, _ in done), sum(pairs / took for pairs, took in done)

    def spend(self, name: str, callers: int) -> int:
        """Compete for a budget that is too small for all. Returns how many requests were admitted."""
        return sum(self._run(name, callers, partial(_spend, name, self._urls[name])))

    def _run[T](self, name: str, callers: int, job: Callable[[float], T]) -> list[T]:
        """Warm up, then start together."""
        self.workers.run(partial(_warm_up, name, self._urls[name]), callers)
        return self.workers.run(partial(job, time.time() + _LEAD_SECONDS), callers)


@cache
def _side(name: str, url: str) -> Side:
    return SIDES[name](url)


def _warm_up(name: str, url: str) -> None:
    _side(name, url).pair(WARM)


def _pairs(name: str, url: str, tenants: int, seconds: float, begin_at: float) -> tuple[int, float]:
    """Returns how many pairs were done, and how long they took."""
    side, done = _side(name, url), 0
    time.sleep(max(0.0, begin_at - time.time()))
    began = time.perf_counter()
    while (took := time.perf_counter() - began) < seconds:
        done += side.pair(tenant_of(tenants, random.randrange(tenants)))  # noqa: S311 - not secret
    return done, took


def _spend(name: str, url: str, begin_at: float) -> int:
    """Make requests one after another, each under way for a while. Returns how many were admitted."""
    side, admitted = _side(name, url), 0
    time.sleep(max(0.0, begin_at - time.time()))
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
