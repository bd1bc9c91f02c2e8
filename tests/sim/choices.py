"""The stream of decisions that makes one schedule: drawn from a seed, or replayed from a list.

Every decision is a small number, and 0 is always the tamest: the same actor goes on, nothing fails, no time is
lost. A schedule is therefore shrunk by setting its decisions to 0 (see shrink.py).
"""

from collections.abc import Sequence
from random import Random


class Choices:
    """Decisions in the order in which they were asked for; `taken` is all that a replay needs."""

    def __init__(self, source: int | Sequence[int]) -> None:
        self.taken: list[int] = []
        self.calm = False
        """Once set, every decision is 0 and none is recorded: the schedule is over, the system comes to rest."""
        self._random = Random(source) if isinstance(source, int) else None
        self._replayed: Sequence[int] = () if isinstance(source, int) else source

    def pick(self, count: int) -> int:
        """One of `count`, each as likely."""
        if self.calm or count < 2:
            return 0
        return self._note(int(self._random.random() * count) if self._random else self._replay(count))

    def rarely(self, probability: float, count: int) -> int:
        """0, or with `probability` one of 1 … `count`."""
        if self.calm or not count:
            return 0
        if self._random is None:
            return self._note(self._replay(count + 1))
        drawn = self._random.random()
        return self._note(0 if drawn >= probability else 1 + int(drawn / probability * count))

    def _replay(self, count: int) -> int:
        index = len(self.taken)
        return min(self._replayed[index], count - 1) if index < len(self._replayed) else 0

    def _note(self, choice: int) -> int:
        self.taken.append(choice)
        return choice
