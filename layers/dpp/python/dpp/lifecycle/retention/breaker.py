"""The cleanup breaker: if far more rows of a class are due than usual, none is deleted, and an operator must decide.
Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

HISTORY_DAYS = 14
"""The number of past daily cleanups that define the usual count."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`max_deletes`: how many rows of a class one cleanup deletes at most. The breaker allows `factor` times the median
    of the last days, and at least `floor`."""

    max_deletes: int
    factor: int
    floor: int

    def allowed(self, history: Sequence[int]) -> int:
        """The number of due rows above which the breaker trips; `history`: the counts of the last daily cleanups."""
        return max(self.floor, self.factor * int(median(history)) if history else 0)
