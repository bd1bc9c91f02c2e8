"""When requests are due, whether a rate was held, which rate is tried next: what of the load test needs no server."""

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

DONE_SHARE = 0.95
"""Of what was due in a step, so much must be COMMITTED at the end of the step and its grace."""
GRACE_SECONDS = 3.0
GROWTH_SHARE, GROWTH_RUNS = 0.1, 3
"""From the second third of a step to the last the backlog may rise by so much of what is due in a third, and by so many
runs, as it does with Poisson arrivals now and then though nothing is amiss.
"""
SUBMIT_P99_MS = 2_000.0
"""A submit is slow beyond it. As wide as that since the stack's minute jobs start beside the load, on its cores."""
LATE_P99_MS = 50.0
"""A generator that sends later than so after a request was due measures itself; its figures are not valid."""
_NEVER = math.inf


def arrivals(rate: float, seconds: float, chance: random.Random) -> list[float]:
    """When requests are due, in seconds from the begin: a Poisson process of `rate` a second."""
    due, at = list[float](), chance.expovariate(rate)
    while at < seconds:
        due.append(at)
        at += chance.expovariate(rate)
    return due


@dataclass(frozen=True, slots=True)
class Spread:
    """How times lie, by nearest rank; nan where there are none."""

    p50: float
    p90: float
    p99: float
    worst: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The spread of these."""
        ranked = sorted(values)
        return cls(*(percentile(ranked, share) for share in (0.5, 0.9, 0.99, 1.0)))


def percentile(ranked: Sequence[float], share: float) -> float:
    """The least of the sorted values that `share` of all don't exceed; nan where there are none."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)] if ranked else math.nan


def growth(samples: Sequence[tuple[float, int]], begun: float, ended: float) -> float:
    """By how many runs a backlog rose: its mean in the last third of a step less that in the second."""
    third = (ended - begun) / 3
    means = []
    for part in (1, 2):
        low = begun + part * third
        within = [count for at, count in samples if low <= at < low + third]
        means.append(sum(within) / len(within) if within else _NEVER)
    return _NEVER if _NEVER in means else means[1] - means[0]


@dataclass(frozen=True, slots=True)
class Figures:
    """One step. Rates a second, times in ms; latencies count from when a request was due."""

    rate: float
    seconds: float
    offered: int
    """Submits that were due."""
    unsent: int
    """Requests that were due and not sent, since too many were under way."""
    accepted: int
    done: int
    """Of the offered, COMMITTED at the end of the step and its grace."""
    submit: Spread
    read: Spread
    whole: Spread
    """From when a submit was due until its run was COMMITTED."""
    late: Spread
    answers: Counter[str]
    growth: float
    """By how many runs the backlog rose from the second third of the step to the last."""
    backlog: int
    """Runs not yet COMMITTED when the step ended."""
    environments: Mapping[str, int] = field(default_factory=dict)
    """Processes that run functions, at the end of the step, by function."""
    cores: Mapping[str, float] = field(default_factory=dict)
    """Processors kept busy, by who did."""

    @property
    def valid(self) -> bool:
        """Whether the generator kept its own pace."""
        return self.late.p99 <= LATE_P99_MS


def held_against(step: Figures) -> list[str]:
    """Why the rate was not held; nothing where it was."""
    against = []
    if step.done < DONE_SHARE * step.offered:
        against.append(f"{step.done} of {step.offered} done in time")
    if step.growth > GROWTH_SHARE * step.rate * step.seconds / 3 + GROWTH_RUNS:
        against.append(f"the backlog rose by {step.growth:.1f} runs")
    if not step.submit.p99 <= SUBMIT_P99_MS:
        against.append(f"p99 of submit {step.submit.p99:.0f} ms")
    if step.unsent:
        against.append(f"{step.unsent} not sent, too many were under way")
    return against


@dataclass(slots=True)
class Search:
    """The knee: the highest rate that was held, with a rate above it that was not.

    Up from `start` by `factor` until a rate is not held, then as many times halfway between the two. Where the first is
    not held already, down until one is.
    """

    start: float
    factor: float
    halvings: int
    least: float = 0.25
    most: float = 1_000.0
    held: float | None = None
    failed: float | None = None

    def next(self) -> float | None:
        """The rate to try now; None at the end."""
        if self.held is None:
            rate = self.start if self.failed is None else self.failed / self.factor
            return rate if rate >= self.least else None
        if self.failed is None:
            rate = self.held * self.factor
            return rate if rate <= self.most else None
        if self.halvings <= 0:
            return None
        return (self.held + self.failed) / 2

    def tell(self, rate: float, *, held: bool) -> None:
        """What became of it."""
        if self.held is not None and self.failed is not None:
            self.halvings -= 1
        if held:
            self.held = rate
        else:
            self.failed = rate
