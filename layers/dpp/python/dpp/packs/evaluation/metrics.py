"""The metrics of the eval pack: each reads a value, then scores a prediction against a reference (RUN-28)."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import assert_never

from pydantic import JsonValue

from dpp.packs.evaluation import json_match, numbers, text
from dpp.packs.inputs.eval import EvalMetric
from dpp.packs.patterns import compile_pattern


class Note(StrEnum):
    """Reasons for a missing score, or for a 0 without a comparison."""

    MISSING_PREDICTION = "MISSING_PREDICTION"
    NOT_TEXT = "NOT_TEXT"
    NOT_A_NUMBER = "NOT_A_NUMBER"
    NOT_JSON = "NOT_JSON"
    JUDGE_LATE = "JUDGE_LATE"
    JUDGE_OVER_BUDGET = "JUDGE_OVER_BUDGET"
    JUDGE_DECLINED = "JUDGE_DECLINED"
    JUDGE_GAVE_NO_SCORE = "JUDGE_GAVE_NO_SCORE"
    JUDGE_FAILED = "JUDGE_FAILED"
    REFERENCE_NOT_TEXT = "REFERENCE_NOT_TEXT"
    REFERENCE_NOT_A_NUMBER = "REFERENCE_NOT_A_NUMBER"
    REFERENCE_NOT_JSON = "REFERENCE_NOT_JSON"


@dataclass(frozen=True, slots=True)
class Score:
    """0 to 1; None if the item can't be held against the metric: by the reference's fault, or the judge's."""

    value: float | None
    note: Note | None = None

    @property
    def compared(self) -> bool:
        """Return whether there was a prediction and a reference, and the metric could read both."""
        return self.note is None


@dataclass(frozen=True, slots=True)
class Missing:
    """There is no prediction for the item."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Metric[T]:
    """`read` raises ValueError for a value that this metric can't compare."""

    read: Callable[[JsonValue], T]
    compare: Callable[[T, T], float]
    unreadable: Note
    reference_unreadable: Note

    def score(self, prediction: JsonValue | Missing, accepted: Sequence[JsonValue]) -> Score:
        """The best score of the prediction against any accepted value that can be read."""
        references = [found for value in accepted for found in self._read(value)]
        if not references:
            return Score(None, self.reference_unreadable)
        if isinstance(prediction, Missing):
            return Score(0.0, Note.MISSING_PREDICTION)
        for found in self._read(prediction):
            return Score(max(self.compare(found, reference) for reference in references))
        return Score(0.0, self.unreadable)

    def _read(self, value: JsonValue) -> list[T]:
        """The value as this metric takes it, or nothing."""
        try:
            return [self.read(value)]
        except ValueError:
            return []


type Scorer = Callable[[JsonValue | Missing, Sequence[JsonValue]], Score]


def scorer(metric: EvalMetric) -> Scorer:
    """The function that scores an item as `metric` asks for."""
    match metric.type:
        case "exact_match":
            return _of_texts(text.normalized if metric.normalize else str, _equal).score
        case "token_f1":
            return _of_texts(lambda value: text.content_tokens(value, metric.hangul_unit), token_f1).score
        case "rouge_l":
            return _of_texts(lambda value: text.tokens(value, metric.hangul_unit), rouge_l).score
        case "numeric":
            return _of_numbers(metric).score
        case "json_match":
            compare = json_partial if metric.partial else json_exact
            return Metric(json_match.read, compare, Note.NOT_JSON, Note.REFERENCE_NOT_JSON).score
        case "regex":
            return _by_pattern(metric)
        case "judge":
            raise AssertionError("a judge scores all items together")
    assert_never(metric.type)


def _by_pattern(metric: EvalMetric) -> Scorer:
    """1 if the pattern occurs in the prediction; references say only which items there are."""
    compiled = compile_pattern(metric.pattern or "", case_sensitive=True)

    def score(prediction: JsonValue | Missing, _accepted: Sequence[JsonValue]) -> Score:
        if isinstance(prediction, Missing):
            return Score(0.0, Note.MISSING_PREDICTION)
        if not isinstance(prediction, str):
            return Score(0.0, Note.NOT_TEXT)
        return Score(float(compiled.search(prediction) is not None))

    return score


def token_f1(prediction: Sequence[str], reference: Sequence[str]) -> float:
    """The harmonic mean of precision and recall over tokens, each counted as often as it occurs."""
    return _f1((Counter(prediction) & Counter(reference)).total(), len(prediction), len(reference))


def rouge_l(prediction: Sequence[str], reference: Sequence[str]) -> float:
    """The F-measure (β = 1) of the longest common subsequence (Lin, 2004)."""
    return _f1(longest_common_subsequence(prediction, reference), len(prediction), len(reference))


def longest_common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Its length, a row of the table at a time as the bits of an integer (Hyyrö, 2004)."""
    places: dict[Hashable, int] = {}
    for place, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << place
    all_bits = (1 << len(one)) - 1
    row = all_bits
    for token in other:
        met = row & places.get(token, 0)
        row = (row + met | row - met) & all_bits
    return len(one) - row.bit_count()


def json_exact(prediction: json_match.Tree, reference: json_match.Tree) -> float:
    """1 if the two are the same."""
    return float(json_partial(prediction, reference) == 1)


def json_partial(prediction: json_match.Tree, reference: json_match.Tree) -> float:
    """The F1 of the leaves that stand in both at the same place; 1 only if the two are the same."""
    common = json_match.common_leaves(prediction, reference)
    return _f1(common, json_match.leaves(prediction), json_match.leaves(reference))


def _f1(common: int, predicted: int, expected: int) -> float:
    """2PR / (P + R) without a rounding on the way; two empty texts are the same text."""
    return 2 * common / (predicted + expected) if predicted or expected else 1.0


def _equal(one: str, other: str) -> float:
    return float(one == other)


def _of_texts[T](read: Callable[[str], T], compare: Callable[[T, T], float]) -> Metric[T]:
    def read_text(value: JsonValue) -> T:
        if not isinstance(value, str):
            raise ValueError("not a text")  # noqa: TRY004 - what `read` promises to raise
        return read(value)

    return Metric(read_text, compare, Note.NOT_TEXT, Note.REFERENCE_NOT_TEXT)


def _of_numbers(metric: EvalMetric) -> Metric[Decimal]:
    absolute, relative = Decimal(metric.absolute_tolerance), Decimal(metric.relative_tolerance)

    def compare(prediction: Decimal, reference: Decimal) -> float:
        return float(numbers.within(prediction, reference, absolute=absolute, relative=relative))

    return Metric(_number, compare, Note.NOT_A_NUMBER, Note.REFERENCE_NOT_A_NUMBER)


def _number(value: JsonValue) -> Decimal:
    match value:
        case str():
            return numbers.from_text(value)
        case bool():  # an int to Python, no number in JSON
            raise numbers.NotANumberError
        case int() | float():
            return numbers.from_json(value)
        case _:
            raise numbers.NotANumberError
