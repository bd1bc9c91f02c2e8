"""A simulated day of one deployment, second by second: what can be neither measured nor calculated. Seeded and pure.

Runs arrive as a Poisson process whose rate follows the day, with a burst at the peak. The gateway's token bucket admits
or refuses them; refused runs do not come back. A run's requests take processor time of the database, which has a fixed
amount each second. Then the message waits for a worker. The event source adds workers gradually up to its maximum.
Work has an exponential duration, and takes processor time of the database before requests do.

Nothing is lost: each run that arrived was refused, is done, waits, or is being worked on. With a short step, a constant
rate and no limit but the workers this is the queue M/M/c, whose waits Erlang's formula C gives (tests compare them).
"""

import math
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from bench.scale.model import DAY_SECONDS, Day, Model, Setting

STAGES = GATEWAY, DATABASE, WORKERS = "API Gateway", "Postgres's processor", "event source"
RAMP = "the event source's ramp"
SOURCE_FIRST, SOURCE_MORE_PER_SECOND = 5, 300 / 60  # workers of a new event source, and how fast it adds more
_SLOWER_DOWN = 10  # assumed: it removes workers this many times more slowly
_PEAK_AT, _BURST_SECONDS, _BURST_FACTOR = 14 * 3_600, 60, 10
_SATURATED_SECONDS = 10  # a part that holds runs up for so long without a break is saturated
_TRIALS = 10**9  # a binomial of so many trials stands for a Poisson count


class Cell(NamedTuple):
    """The capacity of a deployment, and its use by one run."""

    requests_per_second: float
    requests_burst: float
    requests_per_run: int
    database_ms_per_second: float
    database_ms_of_requests: float
    database_ms_of_work: float
    workers: int
    work_seconds: float
    source_first: float = SOURCE_FIRST

    def ceilings(self) -> dict[str, float]:
        """Runs a second that each part bears, calculated."""
        database = self.database_ms_per_second / (self.database_ms_of_requests + self.database_ms_of_work)
        gateway = self.requests_per_second / self.requests_per_run
        return {GATEWAY: gateway, DATABASE: database, WORKERS: self.workers / self.work_seconds}

    def times(self, workers: int = 1, requests: float = 1, vcpus: float = 1) -> "Cell":
        """With so many times the workers, the gateway's rate and the vCPUs."""
        rate, ms = requests * self.requests_per_second, vcpus * self.database_ms_per_second
        return self._replace(workers=workers * self.workers, requests_per_second=rate, database_ms_per_second=ms)


def cell_of(has: Setting, model: Model, burst: float = 0) -> Cell:
    """A deployment whose gateway admits `burst` requests above its rate."""
    gateway = has["api_requests"], burst, model.day.requests_per_run
    work_ms = model.units["calls"]["work"]["postgres_ms"]
    database = has["vcpus"] * 1_000, model.requests_postgres_ms, work_ms
    return Cell(*gateway, *database, int(has["source_workers"]), model.day.work_seconds)


class Simulation:
    """A deployment and what happened to its runs so far. Waits are from the arrival to the start of the work."""

    def __init__(self, cell: Cell, seed: int, step_seconds: float = 1.0) -> None:
        self.cell, self._step_seconds, self.now = cell, step_seconds, 0.0
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self.arrived = self.refused = self.done = self.busy = self.longest_backlog = 0
        self.waits = Counter[float]()
        self.waiting: deque[list[float]] = deque()  # arrival time and count, oldest first
        self.used: dict[str, list[float]] = {part: [] for part in STAGES}
        self.saturated: dict[str, float] = {}  # since when, in order
        self._at_database = self._queued = 0
        self._tokens, self._allowed = cell.requests_burst, min(cell.source_first, float(cell.workers))
        self._held_up_since: dict[str, float] = {}

    @property
    def backlog(self) -> int:
        return self._at_database + self._queued

    def step(self, rate: float) -> None:
        """Advance by one step with this rate of arrivals."""
        self._arrive(rate * self._step_seconds)
        self._use_database()
        self._start_work()
        self.longest_backlog = max(self.longest_backlog, self.backlog)
        self.now = round(self.now + self._step_seconds, 6)

    def _arrive(self, mean: float) -> None:
        each, room = self.cell.requests_per_run, self.cell.requests_per_second * self._step_seconds
        arrived = self._random.binomialvariate(_TRIALS, mean / _TRIALS) if mean > 0 else 0
        self._tokens = min(self.cell.requests_burst + room, self._tokens + room)
        admitted = min(arrived, int(self._tokens // each))
        self._tokens -= admitted * each
        self.arrived, self.refused = self.arrived + arrived, self.refused + arrived - admitted
        self._at_database += admitted
        if admitted:
            self.waiting.append([self.now, admitted])
        self._note(GATEWAY, arrived > admitted, admitted * each / room)

    def _use_database(self) -> None:
        cell, room = self.cell, self.cell.database_ms_per_second * self._step_seconds
        ending = self._random.binomialvariate(self.busy, min(1.0, self._step_seconds / cell.work_seconds))
        ended, left = _served(ending, cell.database_ms_of_work, room)
        sent, left = _served(self._at_database, cell.database_ms_of_requests, left)
        self.busy, self.done = self.busy - ended, self.done + ended
        self._at_database, self._queued = self._at_database - sent, self._queued + sent
        self._note(DATABASE, self._at_database > 0, 1 - left / room)

    def _start_work(self) -> None:
        workers, more = self.cell.workers, SOURCE_MORE_PER_SECOND * self._step_seconds
        started = max(0, min(self._queued, int(self._allowed) - self.busy))
        self.busy, self._queued = self.busy + started, self._queued - started
        while started:
            oldest = self.waiting[0]
            taken = min(started, int(oldest[1]))
            self.waits[round(self.now - oldest[0], 6)] += taken
            started, oldest[1] = started - taken, oldest[1] - taken
            if not oldest[1]:
                self.waiting.popleft()
        is_full = self._allowed >= workers
        self._note(RAMP, self._queued > 0 and not is_full)
        self._note(WORKERS, self._queued > 0 and is_full, self.busy / workers)
        fewest = max(self.busy, min(self.cell.source_first, workers))
        fewer = max(float(fewest), self._allowed - more / _SLOWER_DOWN)
        self._allowed = min(float(workers), self._allowed + more) if self._queued else fewer

    def _note(self, part: str, holds_up: bool, used: float | None = None) -> None:
        if used is not None:
            self.used[part].append(used)
        if not holds_up:
            self._held_up_since.pop(part, None)
        elif self.now - self._held_up_since.setdefault(part, self.now) >= _SATURATED_SECONDS:
            self.saturated.setdefault(part, self.now)

    def wait(self, share: float) -> float:
        """The wait that this share of all started runs did not exceed."""
        counted, enough = 0, share * self.waits.total()
        for seconds, count in sorted(self.waits.items()):
            counted += count
            if counted >= enough:
                return seconds
        return 0.0

    def waited_over(self, seconds: float) -> float:
        """Count the runs that waited longer, including those that still wait."""
        ages = [(self.now - arrived_at, count) for arrived_at, count in self.waiting]
        return sum(count for wait, count in (*self.waits.items(), *ages) if wait > seconds)

    def busiest_minute(self, part: str) -> float:
        """The highest mean use of a part in 60 steps."""
        used = self.used[part]
        return max(math.fsum(used[at : at + 60]) / len(used[at : at + 60]) for at in range(0, len(used), 60))


def _served(count: int, each_ms: float, left_ms: float) -> tuple[int, float]:
    """The number that the database has time for, and the time left."""
    count = min(count, int(left_ms // each_ms)) if each_ms else count
    return count, left_ms - count * each_ms


def simulate(
    cell: Cell, rate: Callable[[float], float], seconds: float, *, seed: int = 1, step_seconds: float = 1.0
) -> Simulation:
    """Simulate with this rate of arrivals. The same seed gives the same outcome."""
    simulation = Simulation(cell, seed, step_seconds)
    for _ in range(round(seconds / step_seconds)):
        simulation.step(rate(simulation.now))
    return simulation


def simulate_day(cell: Cell, day: Day) -> tuple[Simulation, float | None]:
    """Simulate a day with the burst at its peak; with the seconds after the burst until its backlog was gone."""
    curve, simulation, gone_after = daily(day), Simulation(cell, seed=1), None
    for now in range(DAY_SECONDS):
        since_burst = now - _PEAK_AT - _BURST_SECONDS
        simulation.step(curve(now) * (_BURST_FACTOR if -_BURST_SECONDS <= since_burst < 0 else 1))
        if since_burst >= 0 and gone_after is None and simulation.backlog <= curve(now):
            gone_after = float(since_burst)
    return simulation, gone_after


def daily(day: Day) -> Callable[[float], float]:
    """Runs a second by the time of day: a curve exp(k cos x) with the day's peak factor and the day's total."""
    angles = [2 * math.pi * step / 1_000 for step in range(1_000)]
    low, high = 0.0, 50.0
    for _ in range(80):
        k = (low + high) / 2
        mean = math.fsum(math.exp(k * (math.cos(angle) - 1)) for angle in angles) / len(angles)
        low, high = (k, high) if mean * day.peak_factor > 1 else (low, k)
    return lambda now: day.peak * math.exp(k * (math.cos(2 * math.pi * (now - _PEAK_AT) / DAY_SECONDS) - 1))


def first_to_saturate(cell: Cell, up_to: float, seconds: int = 7_200) -> tuple[str, float]:
    """The part that first holds runs up while their rate grows evenly, and that rate in runs a second.

    The rate grows more slowly than the event source adds workers, so this finds a maximum and not the ramp.
    """
    saturated = simulate(cell, lambda now: up_to * now / seconds, seconds).saturated
    part, now = next((part, now) for part, now in saturated.items() if part != RAMP)
    return part, up_to * (now - _SATURATED_SECONDS) / seconds
