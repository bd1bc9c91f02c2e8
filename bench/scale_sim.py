"""A day of a deployment, second by second, for what can't be measured here; pure and seeded.

Runs arrive as a Poisson process whose rate follows the day, with a burst at the peak. The gateway lets through what its
token bucket has room for, and refuses the rest, which come no more. A run's requests take time of the database, which
has so much a second; then its message waits until the event source has a worker for it, of which it may keep more busy
from minute to minute, up to its maximum. Work ends without memory of how long it has lasted, and takes time of the
database, which serves it before requests.

All is counted and nothing is lost: what arrived was refused, is done, waits, or is worked on. With a step small beside
the work, nothing but workers in its way and a steady rate, it is a queue M/M/c, whose waiting times Erlang's formula C
gives; tests/local/test_scale.py holds it to that.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from bench import scale_aws as aws
from bench.scale_day import DAY_SECONDS, Day, Run
from bench.scale_model import Setting

GATEWAY, DATABASE, WORKERS, RAMP = (
    "API Gateway",
    "Postgres's processor",
    "event source",
    "the event source's way up",
)
PEAK_AT_SECONDS = 14 * 3_600
BURST_SECONDS, BURST_FACTOR = 60, 10
HELD_UP_SECONDS = 10
"""A part that held somebody up for so long, without a break, is saturated."""
ALARM_SECONDS, SWEPT_SECONDS = 300, 3_600
"""Waiting for so long raises queue-age; past the hour the sweeper refunds a run."""
_POISSON_TRIALS = 10**9
_LESS_THAN_MORE = 10
"""The event source keeps fewer busy so many times more slowly than more. Assumed: AWS does not say how fast."""
type Rate = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Cell:
    """What a deployment does in a second, at most."""

    requests_per_second: float
    requests_burst: float
    requests_a_run: int
    database_ms_per_second: float
    database_ms_of_requests: float
    database_ms_of_work: float
    workers: int
    work_seconds: float
    source_first: float = aws.SOURCE_FIRST
    source_more_per_second: float = aws.SOURCE_MORE_PER_SECOND

    @classmethod
    def of(cls, setting: Setting, run: Run, day: Day, burst: float) -> "Cell":
        """Of a setting, whose gateway takes so many requests above its rate."""
        return cls(
            requests_per_second=setting.api_per_second,
            requests_burst=burst,
            requests_a_run=day.requests_a_run,
            database_ms_per_second=setting.vcpus * 1_000,
            database_ms_of_requests=run.postgres_ms_of_requests,
            database_ms_of_work=run.postgres_ms_of_work,
            workers=int(setting.workers_at_once),
            work_seconds=day.work_seconds,
        )


@dataclass(slots=True)
class Told:
    """What became of a simulated time. Waits are in seconds, from the arrival to the begin of the work."""

    arrived: int = 0
    refused: int = 0
    done: int = 0
    waiting: int = 0
    at_work: int = 0
    waits: Counter[float] = field(default_factory=Counter)
    waited_in_sum: float = 0.0
    longest_backlog: int = 0
    steps: int = 0
    used: dict[str, list[float]] = field(default_factory=dict)
    """By part, of each step, 1 for all of it."""
    saturated: list[tuple[float, str]] = field(default_factory=list)
    """When each part first was, in seconds; in that order."""
    backlog_gone_at: float | None = None
    """When nobody waited any more than at ordinary times, after the burst."""
    ages: Counter[float] = field(default_factory=Counter)
    """Of those who still wait at the end, in seconds."""

    def wait(self, share: float) -> float:
        """The wait that this share of all begun runs didn't exceed."""
        total, counted = sum(self.waits.values()), 0
        for seconds in sorted(self.waits):
            counted += self.waits[seconds]
            if counted >= share * total:
                return seconds
        return 0.0

    @property
    def mean_wait(self) -> float:
        """Of all begun runs."""
        return self.waited_in_sum / max(1, sum(self.waits.values()))

    def waited_over(self, seconds: float) -> int:
        """How many runs, those among them who still wait."""
        every = (*self.waits.items(), *self.ages.items())
        return sum(count for wait, count in every if wait > seconds)

    def mean_used(self, part: str) -> float:
        """Over the whole time."""
        return sum(self.used[part]) / len(self.used[part])

    def busiest_minute(self, part: str, step_seconds: float = 1.0) -> float:
        """The mean of the minute in which it was the most."""
        width = max(1, round(60 / step_seconds))
        used = self.used[part]
        windows = [used[begin : begin + width] for begin in range(0, len(used), width)]
        return max(sum(window) / len(window) for window in windows)


def poisson(random: Random, mean: float) -> int:
    """A count of this mean; by a binomial of a thousand million trials, whose difference nothing here can tell."""
    return random.binomialvariate(_POISSON_TRIALS, mean / _POISSON_TRIALS) if mean > 0 else 0


class _Simulation:
    """One deployment at one moment."""

    def __init__(self, cell: Cell, seed: int, step_seconds: float) -> None:
        self.cell, self.step_seconds = cell, step_seconds
        self.random = Random(seed)  # noqa: S311 - to be repeated, not to be kept secret
        self.told = Told()
        self._cohorts: deque[list[float]] = deque()  # [arrived at, how many]; oldest first, in both queues
        self._for_database = self._for_worker = self._busy = 0
        self._tokens = cell.requests_burst
        self._may_work = min(cell.source_first, float(cell.workers))
        self._held: dict[str, float] = {}
        self.told.used = {part: [] for part in (GATEWAY, DATABASE, WORKERS)}

    @property
    def backlog(self) -> int:
        """Who waits, at the database or in the queue."""
        return self._for_database + self._for_worker

    def step(self, now: float, rate: float) -> None:
        """What happens until the next moment."""
        self.told.steps += 1
        self._arrive(now, rate)
        self._database()
        self._start(now)
        self.told.longest_backlog = max(self.told.longest_backlog, self.backlog)
        self.told.waiting, self.told.at_work = self.backlog, self._busy

    def end(self, now: float) -> Told:
        """What became of all of it."""
        for arrived_at, count in self._cohorts:
            self.told.ages[now - arrived_at] += int(count)
        return self.told

    def _arrive(self, now: float, rate: float) -> None:
        cell, room = self.cell, self.cell.requests_per_second * self.step_seconds
        arrived = poisson(self.random, rate * self.step_seconds)
        self._tokens = min(cell.requests_burst + room, self._tokens + room)
        admitted = min(arrived, int(self._tokens // cell.requests_a_run))
        self._tokens -= admitted * cell.requests_a_run
        self.told.arrived += arrived
        self.told.refused += arrived - admitted
        self.told.used[GATEWAY].append(admitted * cell.requests_a_run / room)
        self._note(GATEWAY, now, held_up=arrived > admitted)
        self._for_database += admitted
        if admitted:
            self._cohorts.append([now, admitted])

    def _database(self) -> None:
        """Work that ends comes first, then requests; both as far as the database has time."""
        cell, now = self.cell, (self.told.steps - 1) * self.step_seconds
        room = left = cell.database_ms_per_second * self.step_seconds
        ends = self.random.binomialvariate(self._busy, min(1.0, self.step_seconds / cell.work_seconds))
        if cell.database_ms_of_work:
            ends = min(ends, int(left // cell.database_ms_of_work))
        self._busy -= ends
        self.told.done += ends
        left -= ends * cell.database_ms_of_work
        served = self._for_database
        if cell.database_ms_of_requests:
            served = min(served, int(left // cell.database_ms_of_requests))
        left -= served * cell.database_ms_of_requests
        self._for_database -= served
        self._for_worker += served
        self.told.used[DATABASE].append(1 - left / room)
        self._note(DATABASE, now, held_up=self._for_database > 0)

    def _start(self, now: float) -> None:
        cell = self.cell
        begun = max(0, min(self._for_worker, int(self._may_work) - self._busy))
        self._busy += begun
        self._for_worker -= begun
        self._count_waits(now, begun)
        full = self._may_work >= cell.workers
        self._note(RAMP, now, held_up=self._for_worker > 0 and not full)
        self._note(WORKERS, now, held_up=self._for_worker > 0 and full)
        self.told.used[WORKERS].append(self._busy / cell.workers)
        more = cell.source_more_per_second * self.step_seconds
        if self._for_worker:
            self._may_work = min(float(cell.workers), self._may_work + more)
        else:
            least = max(self._busy, min(cell.source_first, cell.workers))
            self._may_work = max(float(least), self._may_work - more / _LESS_THAN_MORE)

    def _count_waits(self, now: float, begun: int) -> None:
        while begun:
            arrived_at, count = self._cohorts[0]
            taken = min(begun, int(count))
            begun -= taken
            self.told.waits[round(now - arrived_at, 6)] += taken
            self.told.waited_in_sum += taken * (now - arrived_at)
            if taken == count:
                self._cohorts.popleft()
            else:
                self._cohorts[0][1] -= taken

    def _note(self, part: str, now: float, *, held_up: bool) -> None:
        if not held_up:
            self._held.pop(part, None)
            return
        since = self._held.setdefault(part, now)
        if now - since >= HELD_UP_SECONDS and all(part != known for _, known in self.told.saturated):
            self.told.saturated.append((now, part))


def simulate(cell: Cell, rate: Rate, seconds: float, *, seed: int, step_seconds: float = 1.0) -> Told:
    """A time with this rate of arrivals. The same seed, the same outcome."""
    simulation = _Simulation(cell, seed, step_seconds)
    for number in range(round(seconds / step_seconds)):
        now = number * step_seconds
        simulation.step(now, rate(now))
    return simulation.end(seconds)


def simulate_day(cell: Cell, day: Day, *, seed: int = 1, burst: float = BURST_FACTOR) -> Told:
    """A day with its curve, and at its peak a minute of so many times the rate."""
    curve, simulation = daily(day), _Simulation(cell, seed, 1.0)
    burst_ends = PEAK_AT_SECONDS + BURST_SECONDS
    for now in range(DAY_SECONDS):
        rate = curve(now)
        bursting = PEAK_AT_SECONDS <= now < burst_ends
        simulation.step(now, rate * burst if bursting else rate)
        told = simulation.told
        if now >= burst_ends and told.backlog_gone_at is None and simulation.backlog <= rate:
            told.backlog_gone_at = now
    return simulation.end(DAY_SECONDS)


def daily(day: Day) -> Rate:
    """Runs a second by the second of the day: a smooth hill with the peak factor, and the day's runs below it."""
    sharpness = _sharpness(day.peak_factor)
    lowest = day.peak_per_second / math.exp(sharpness)

    def rate(now: float) -> float:
        angle = 2 * math.pi * (now - PEAK_AT_SECONDS) / DAY_SECONDS
        return lowest * math.exp(sharpness * math.cos(angle))

    return rate


def _sharpness(peak_factor: float) -> float:
    """That of exp(k cos x) whose highest value is so many times its mean; by halving."""
    low, high = 0.0, 50.0
    for _ in range(80):
        middle = (low + high) / 2
        if math.exp(middle) / _mean_of_hill(middle) < peak_factor:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _mean_of_hill(sharpness: float) -> float:
    """The modified Bessel function of order 0, by its series."""
    term = total = 1.0
    for number in range(1, 200):
        term *= (sharpness / 2) ** 2 / number**2
        total += term
    return total


def first_to_saturate(
    cell: Cell, upto_per_second: float, *, seconds: int = 7_200, seed: int = 1
) -> tuple[str, float]:
    """The part that holds runs up first while their rate grows evenly, and the rate at which it does, in runs a second.

    It grows more slowly than the event source's ramp, so that a maximum is met and not the way to it.
    """
    told = simulate(cell, lambda now: upto_per_second * now / seconds, seconds, seed=seed)
    at_maximum = [(now, part) for now, part in told.saturated if part != RAMP]
    now, part = at_maximum[0]
    return part, upto_per_second * (now - HELD_UP_SECONDS) / seconds


def ceilings(cell: Cell) -> dict[str, float]:
    """The runs a second that each part bears, by its own numbers, with nothing at random."""
    taken = cell.database_ms_of_requests + cell.database_ms_of_work
    return {
        GATEWAY: cell.requests_per_second / cell.requests_a_run,
        DATABASE: cell.database_ms_per_second / taken if taken else math.inf,
        WORKERS: cell.workers / cell.work_seconds,
    }


def erlang_c(servers: int, load: float) -> float:
    """The chance that one who comes must wait, in M/M/c; `load`: of all servers together, in servers."""
    inverse = 1.0  # of Erlang's formula B, by its recursion
    for number in range(1, servers + 1):
        inverse = 1 + inverse * number / load
    blocked = 1 / inverse
    return blocked / (1 - load / servers * (1 - blocked))


def mean_wait_seconds(servers: int, rate_per_second: float, service_seconds: float) -> float:
    """In M/M/c, of all who come."""
    load = rate_per_second * service_seconds
    return erlang_c(servers, load) * service_seconds / (servers - load)


def parts(told: Told) -> Sequence[str]:
    """Those that were used at all, in the order of the way through."""
    return [part for part in (GATEWAY, DATABASE, WORKERS) if told.used[part]]
