"""When a class looks as if far more of it would go than usual: then nothing goes, and an operator is asked. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

HISTORY_DAYS = 14
"""How many of the last daily cleanups say what is usual."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`max_deletes`: rows of a class that one cleanup deletes at most. The breaker lets through `factor` times the
    median of the last days, and `floor` in any case."""

    max_deletes: int
    factor: int
    floor: int

    def allowed(self, history: Sequence[int]) -> int:
        """How many rows may be due before the breaker trips; `history`: deleted by the last daily cleanups."""
        return max(self.floor, self.factor * int(median(history)) if history else 0)
