"""Weighs the scores of a comparison, and says which option has the most (RUN-25)."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpp.packs.decision.answers import Comparison, Judgement

UNKNOWN_SCORE = 0.5
"""The score that counts for an option without a score by a criterion that scored another option."""
_PLACES = 4
"""Options whose weighted scores are equal when rounded to these are tied."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The number of the option with the highest score, None if there is none; `scores` by option, None if unknown."""

    option: int | None
    tied: tuple[int, ...]
    scores: tuple[float | None, ...]


def recommend(comparison: Comparison, weights: Sequence[float]) -> Recommendation:
    """The option with the highest weighted mean. Of tied ones the one that the model recommends, else none."""
    known = [
        number
        for number in range(len(weights))
        if any(_score(row, number) is not None for row in comparison.judgements)
    ]
    if not known:
        return Recommendation(None, (), tuple(None for _ in comparison.judgements))
    total = sum(weights[number] for number in known)
    scores = tuple(
        round(sum(weights[number] * _known(row, number) for number in known) / total, _PLACES)
        for row in comparison.judgements
    )
    best = tuple(number for number, score in enumerate(scores) if score == max(scores))
    if len(best) == 1:
        return Recommendation(best[0], (), scores)
    return Recommendation(comparison.stated if comparison.stated in best else None, best, scores)


def _score(row: Sequence[Judgement], number: int) -> float | None:
    return row[number].score


def _known(row: Sequence[Judgement], number: int) -> float:
    score = _score(row, number)
    return UNKNOWN_SCORE if score is None else score
