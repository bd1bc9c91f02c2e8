"""Suites of public test data, and how their right answers are counted (`make outside`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Case(NamedTuple):
    """One case of a suite: its name there, whether our answer is right, and what we answered if it isn't."""

    name: str
    right: bool
    answer: str = ""


@dataclass(frozen=True)
class Suite:
    """A public suite. `run` gets the folder of its data and yields every case.

    `otherwise` maps the name of a case that we answer differently on purpose to the reason. These cases count neither
    as right nor in the total.
    """

    name: str
    aim: int
    run: Callable[[Path], Iterable[Case]]
    otherwise: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Count:
    """The right cases of a suite out of the total, and the wrong ones by name and answer."""

    right: int
    total: int
    wrong: tuple[Case, ...]


def count(suite: Suite, data: Path) -> Count:
    """Run a suite. Raises `ValueError` if `otherwise` names a case that the suite doesn't have."""
    cases = list(suite.run(data))
    if unknown := set(suite.otherwise) - {case.name for case in cases}:
        raise ValueError(f"{suite.name} has no case {', '.join(sorted(unknown))}")
    counted = [case for case in cases if case.name not in suite.otherwise]
    wrong = tuple(case for case in counted if not case.right)
    return Count(right=len(counted) - len(wrong), total=len(counted), wrong=wrong)
