"""Percentile bootstrap intervals of means (Efron, 1979), reproducible by seed (RUN-28)."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """Between the two, in so many percent of the resamples, lies the mean."""

    lower: float
    upper: float


def mean(scores: Sequence[float]) -> float:
    """The mean, the same in whatever order the scores come. `scores` must not be empty."""
    return math.fsum(scores) / len(scores)


def interval(scores: Sequence[float], *, seed: int, resamples: int, confidence_percent: int) -> Interval:
    """The percentiles, by nearest rank, of the means of `resamples` draws with replacement.

    Pure Python's generator and not NumPy's, so that the answer depends on no library; the scores are sorted
    first, so that it doesn't depend on the order of the items either. `scores` must not be empty.
    """
    ordered = sorted(scores)
    if ordered[0] == ordered[-1]:
        return Interval(ordered[0], ordered[0])
    generator = random.Random(seed)  # noqa: S311 - to be repeatable is what it is for
    means = sorted(mean(generator.choices(ordered, k=len(ordered))) for _ in range(resamples))
    cut = resamples * (100 - confidence_percent) // 200
    return Interval(means[cut], means[-1 - cut])
