"""The rules of the load test: when requests are due, whether a rate is sustained, which rate is tried next. Pure."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

DONE_SHARE = 0.95
"""The share of the due submits that must be COMMITTED when the step and its grace period end."""
GRACE_SECONDS = 3.0
GROWTH_SHARE, GROWTH_RUNS = 0.1, 3
"""Accepted growth of the backlog from the second third of a step to the last: by a share of what is due in a third, and
by some runs, since Poisson arrivals vary.
"""
SUBMIT_P99_MS = 2_000.0
"""The highest p99 of a submit. It is so high because the stack's minute jobs start beside the load, on its cores."""
LATE_P99_MS = 50.0
"""Figures are not valid if p99 of the generator's own delay is higher."""


def arrivals(rate: float, seconds: float, chance: random.Random) -> list[float]:
    """Due times of requests, in seconds from the start: a Poisson process of `rate` a second."""
    due, at = list[float](), chance.expovariate(rate)
    while at < seconds:
        due.append(at)
        at += chance.expovariate(rate)
    return due


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles of times, by nearest rank; nan if there are none."""

    p50: float
    p90: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        ranked = sorted(values)
        return cls(*(percentile(ranked, share) for share in (0.5, 0.9, 0.99, 1.0)))


def percentile(ranked: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that `share` of all do not exceed; nan if there are none."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else math.nan


def growth(samples: Sequence[tuple[float, int]], began: float, ended: float) -> float:
    """The mean backlog in the last third of a step less that in the second; infinite if a third has no sample."""
    third, means = (ended - began) / 3, []
    for part in (1, 2):
        low = began + part * third
        within = [count for at, count in samples if low <= at < low + third]
        means.append(sum(within) / len(within) if within else math.inf)
    return math.inf if math.inf in means else means[1] - means[0]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one step: rates a second, times in ms. Latencies count from when a request was due."""

    rate: float
    seconds: float
    offered: int  # submits that were due
    unsent: int  # requests that were due and not sent, because too many were under way
    accepted: int
    done: int  # COMMITTED when the step and its grace period ended
    submit: Spread
    read: Spread
    whole: Spread  # from when a submit was due until its run was COMMITTED
    late: Spread  # how late the generator sent
    answers: Counter[str]
    growth: float  # of the backlog, in runs
    backlog: int  # runs not yet COMMITTED when the step ended
    environments: Mapping[str, int] = field(default_factory=dict)  # processes by function, at the end of the step
    cores: Mapping[str, float] = field(default_factory=dict)  # busy processors by program

    @property
    def is_valid(self) -> bool:
        """True if the generator sent on time."""
        return self.late.p99 <= LATE_P99_MS


def violations(step: Figures) -> list[str]:
    """The conditions that this step does not meet. Its rate is sustained if there are none."""
    found = []
    if step.done < DONE_SHARE * step.offered:
        found.append(f"{step.done} of {step.offered} done in time")
    if step.growth > GROWTH_SHARE * step.rate * step.seconds / 3 + GROWTH_RUNS:
        found.append(f"the backlog grew by {step.growth:.1f} runs")
    if not step.submit.p99 <= SUBMIT_P99_MS:
        found.append(f"p99 of submit {step.submit.p99:.0f} ms")
    if step.unsent:
        found.append(f"{step.unsent} not sent, too many were under way")
    return found


@dataclass(slots=True)
class Search:
    """Searches the knee: the highest rate that is sustained.

    It multiplies the rate by `factor` until one is not sustained, then tries `halvings` rates halfway between the two.
    If the first rate is not sustained, it divides until one is.
    """

    start: float
    factor: float
    halvings: int
    least: float = 0.25
    most: float = 1_000.0
    sustained: float | None = None
    failed: float | None = None

    def next(self) -> float | None:
        """The rate to try next; None at the end."""
        if self.sustained is None:
            rate = self.start if self.failed is None else self.failed / self.factor
            return rate if rate >= self.least else None
        if self.failed is None:
            rate = self.sustained * self.factor
            return rate if rate <= self.most else None
        return (self.sustained + self.failed) / 2 if self.halvings > 0 else None

    def record(self, rate: float, *, sustained: bool) -> None:
        if self.sustained is not None and self.failed is not None:
            self.halvings -= 1
        if sustained:
            self.sustained = rate
        else:
            self.failed = rate
