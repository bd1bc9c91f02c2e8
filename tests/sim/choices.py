"""The stream of decisions that makes one schedule: drawn from a seed, or replayed from a list.

Every decision is a small number. 0 is always the simplest: the same actor continues, nothing fails, no time passes. A
schedule is therefore shrunk by setting decisions to 0 (see shrink.py).
"""

from collections.abc import Sequence
from random import Random


class Choices:
    """Decisions in the order in which they are requested; `taken` is all that a replay needs."""

    def __init__(self, source: int | Sequence[int]) -> None:
        self.taken: list[int] = []
        self.recovering = False
        """Once set, every decision is 0 and none is recorded: faults are over, and the system recovers."""
        self._random = Random(source) if isinstance(source, int) else None
        self._replayed: Sequence[int] = () if isinstance(source, int) else source

    def pick(self, count: int) -> int:
        """A number below `count`, each equally likely."""
        if self.recovering or count < 2:
            return 0
        return self._record(int(self._random.random() * count) if self._random else self._replay(count))

    def rarely(self, probability: float, count: int) -> int:
        """0, or with `probability` a number from 1 to `count`."""
        if self.recovering or not count:
            return 0
        if self._random is None:
            return self._record(self._replay(count + 1))
        drawn = self._random.random()
        return self._record(0 if drawn >= probability else 1 + int(drawn / probability * count))

    def _replay(self, count: int) -> int:
        index = len(self.taken)
        return min(self._replayed[index], count - 1) if index < len(self._replayed) else 0

    def _record(self, choice: int) -> int:
        self.taken.append(choice)
        return choice
