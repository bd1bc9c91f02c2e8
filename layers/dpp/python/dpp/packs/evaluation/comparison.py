"""Compares the scores of a run with those of an earlier one, item by item (RUN-28)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dpp.packs.evaluation.bootstrap import Interval, interval, mean
from dpp.packs.evaluation.metrics import Score
from dpp.packs.inputs.eval import Bootstrap, EvalBaseline, EvalInputs

type Change = Literal["better", "worse", "unclear"]
_SAME = 1e-6
"""Scores are shown, and given back in a baseline, with six decimal places."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One metric in both runs: the items that both scored, and the mean difference, this run minus the earlier one."""

    name: str
    items: int
    better: int
    worse: int
    mean_difference: float | None
    interval: Interval | None

    @property
    def change(self) -> Change:
        """Better or worse if the whole interval is on that side of 0."""
        if self.interval is None or self.interval.lower <= 0 <= self.interval.upper:
            return "unclear"
        return "better" if self.interval.lower > 0 else "worse"


def compare(inputs: EvalInputs, scores: Sequence[Sequence[Score]]) -> list[Compared]:
    """Each metric that the baseline has, too."""
    if inputs.baseline is None:
        return []
    found = []
    for metric, column in zip(inputs.metrics, scores, strict=True):
        if metric.name in inputs.baseline.metrics:
            earlier = _column(inputs.baseline, inputs.baseline.metrics.index(metric.name))
            pairs = [
                (score.value, earlier[reference.id])
                for reference, score in zip(inputs.references, column, strict=True)
                if score.value is not None and reference.id in earlier
            ]
            found.append(_compared(metric.name, pairs, inputs.bootstrap))
    return found


def _column(baseline: EvalBaseline, number: int) -> Mapping[str, float]:
    return {one.id: score for one in baseline.items if (score := one.scores[number]) is not None}


def _compared(name: str, pairs: Sequence[tuple[float, float]], bootstrap: Bootstrap) -> Compared:
    differences = [0.0 if abs(now - then) <= _SAME else now - then for now, then in pairs]
    if not differences:
        return Compared(name, 0, 0, 0, None, None)
    return Compared(
        name,
        len(differences),
        sum(one > 0 for one in differences),
        sum(one < 0 for one in differences),
        mean(differences),
        interval(
            differences,
            seed=bootstrap.seed,
            resamples=bootstrap.resamples,
            confidence_percent=bootstrap.confidence_percent,
        ),
    )
