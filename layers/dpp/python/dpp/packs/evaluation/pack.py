"""The eval pack: predictions held against references, with intervals and a verdict (RUN-28)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from dpp.packs.contract import PackSuccess
from dpp.packs.evaluation.bootstrap import Interval, interval, mean
from dpp.packs.evaluation.comparison import Compared, compare
from dpp.packs.evaluation.judge import Judge, items_of
from dpp.packs.evaluation.metrics import Missing, Score, scorer
from dpp.packs.inputs.eval import Bootstrap, EvalInputs, EvalMetric
from dpp.packs.prices import eval_cost_usd_micros

_SHOWN_PLACES = 6
MAX_LOGGED_PREDICTIONS = 100
"""The discard log names at most this many predictions without a reference; the rest is only counted."""

type Verdict = Literal["pass", "fail", "none"]


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """One metric over all items. Without a single scored item there is no mean, and no threshold is met."""

    metric: EvalMetric
    scored: int
    skipped: int
    mean: float | None
    interval: Interval | None

    @property
    def verdict(self) -> Verdict:
        if self.metric.threshold is None:
            return "none"
        return "pass" if self.mean is not None and self.mean >= self.metric.threshold else "fail"

    @property
    def certain(self) -> bool:
        """Return whether the whole interval lies on the verdict's side of the threshold."""
        threshold = self.metric.threshold
        if threshold is None or self.interval is None:
            return False
        passes = self.verdict == "pass"
        return self.interval.lower >= threshold if passes else self.interval.upper < threshold


def run(inputs: EvalInputs, judge: Judge | None = None) -> PackSuccess:
    """Score every reference's item by every metric. Means and intervals are the same in any order of items.

    `judge` is needed if a metric asks for it (`EvalInputs.asks_judge`).
    """
    scores = _scores(inputs, judge)
    aggregates = [
        _aggregate(metric, column, inputs.bootstrap) for metric, column in zip(inputs.metrics, scores, strict=True)
    ]
    unmatched, compared = _unmatched(inputs), compare(inputs, scores)
    tokens = 0 if judge is None else judge.bounded.budget.spent
    return PackSuccess(
        data={
            "verdict": _overall([one.verdict for one in aggregates]),
            "counts": _counts(inputs, len(unmatched)),
            "metrics": [_metric_data(one) for one in aggregates],
            "bootstrap": inputs.bootstrap.model_dump(),
            "items": _items(inputs, scores),
        }
        | _judged(inputs, judge)
        | ({"comparison": [_change_data(one) for one in compared]} if compared else {}),
        reliability_score=_reliability(scores),
        discard_log=[{"id": name, "reason": "NO_REFERENCE"} for name in unmatched[:MAX_LOGGED_PREDICTIONS]],
        cost_usd_micros=eval_cost_usd_micros(
            scores=len(inputs.references) * len(inputs.metrics),
            draws=(sum(one.scored for one in aggregates) + sum(one.items for one in compared))
            * inputs.bootstrap.resamples,
            tokens=tokens,
        ),
        tokens_consumed=tokens,
    )


def _scores(inputs: EvalInputs, judge: Judge | None) -> list[list[Score]]:
    """Of each metric, the score of each reference's item."""
    items = items_of(inputs)
    return [_column(metric, items, judge) for metric in inputs.metrics]


def _column(
    metric: EvalMetric, items: Sequence[tuple[JsonValue | Missing, Sequence[JsonValue]]], judge: Judge | None
) -> list[Score]:
    if metric.type != "judge":
        score = scorer(metric)
        return [score(*item) for item in items]
    if judge is None:
        raise ValueError("a metric needs a judge")
    return judge.scores(metric, items)


def _judged(inputs: EvalInputs, judge: Judge | None) -> dict[str, JsonValue]:
    if judge is None:
        return {}
    return {"judges": [judge.shown(metric) for metric in inputs.metrics if metric.type == "judge"]}


def _change_data(one: Compared) -> JsonValue:
    return {
        "name": one.name,
        "items": one.items,
        "better": one.better,
        "worse": one.worse,
        "equal": one.items - one.better - one.worse,
        "mean_difference": None if one.mean_difference is None else round(one.mean_difference, _SHOWN_PLACES),
        "interval": None
        if one.interval is None
        else [round(one.interval.lower, _SHOWN_PLACES), round(one.interval.upper, _SHOWN_PLACES)],
        "change": one.change,
    }


def _reliability(scores: Sequence[Sequence[Score]]) -> float:
    """The share of the references that have a prediction which every metric could compare with them."""
    items = list(zip(*scores, strict=True))
    return sum(all(score.compared for score in item) for item in items) / len(items)


def _aggregate(metric: EvalMetric, column: Sequence[Score], bootstrap: Bootstrap) -> _Aggregate:
    values = [score.value for score in column if score.value is not None]
    skipped = len(column) - len(values)
    if not values:
        return _Aggregate(metric, 0, skipped, None, None)
    found = interval(
        values, seed=bootstrap.seed, resamples=bootstrap.resamples, confidence_percent=bootstrap.confidence_percent
    )
    # Rounded before any threshold is looked at, so that what is shown explains the verdict.
    shown = Interval(round(found.lower, _SHOWN_PLACES), round(found.upper, _SHOWN_PLACES))
    return _Aggregate(metric, len(values), skipped, round(mean(values), _SHOWN_PLACES), shown)


def _overall(verdicts: Sequence[Verdict]) -> Verdict:
    if "fail" in verdicts:
        return "fail"
    return "pass" if "pass" in verdicts else "none"


def _unmatched(inputs: EvalInputs) -> list[str]:
    referenced = {one.id for one in inputs.references}
    return sorted(one.id for one in inputs.predictions if one.id not in referenced)


def _counts(inputs: EvalInputs, unmatched: int) -> dict[str, JsonValue]:
    matched = len(inputs.predictions) - unmatched
    return {
        "references": len(inputs.references),
        "predictions": len(inputs.predictions),
        "missing_predictions": len(inputs.references) - matched,
        "unmatched_predictions": unmatched,
    }


def _metric_data(one: _Aggregate) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {
        "name": one.metric.name,
        "type": one.metric.type,
        "scored": one.scored,
        "skipped": one.skipped,
        "mean": one.mean,
        "interval": None if one.interval is None else [one.interval.lower, one.interval.upper],
    }
    if one.metric.threshold is not None:
        data |= {"threshold": one.metric.threshold, "verdict": one.verdict, "certain": one.certain}
    return data


def _items(inputs: EvalInputs, scores: Sequence[Sequence[Score]]) -> list[JsonValue]:
    """Of each reference, its scores in the order of the metrics, and why some are missing or 0."""
    rows = zip(inputs.references, zip(*scores, strict=True), strict=True)
    return [_item(reference.id, row) for reference, row in rows]


def _item(name: str, row: Sequence[Score]) -> JsonValue:
    shown: list[JsonValue] = [None if score.value is None else round(score.value, _SHOWN_PLACES) for score in row]
    notes: list[JsonValue] = list(dict.fromkeys(str(score.note) for score in row if score.note is not None))
    return {"id": name, "scores": shown, "notes": notes} if notes else {"id": name, "scores": shown}
