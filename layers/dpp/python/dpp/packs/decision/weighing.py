"""Compares options offline: by numbers, and by words of praise and blame that the context has for each (RUN-25).

It understands nothing, so it gives no score where it finds neither, and says with its confidence how much it found.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from dpp.packs.decision.answers import Comparison, Judgement, Passage
from dpp.packs.decision.clauses import by_option
from dpp.packs.decision.recommendation import recommend
from dpp.packs.decision.signals import Amount, Better, Topic, amount, praise, topic_of
from dpp.packs.decision.terms import words
from dpp.packs.inputs.decision import DecisionInputs

MAX_CONFIDENCE = 0.85
"""A rule; what is known of it is in docs/packs.md, from `tests/packs/decision/comparisons.json`."""
_CLEAR_MARGIN = 0.1
"""Options whose weighted scores differ by less are hard to tell apart."""
_MAX_PASSAGES = 3

_HANGUL = re.compile("[가-힣]")
_FOUND = ("By what the context says of {criteria}: {name}.", "문맥에 나온 {criteria} 기준으로: {name}.")
_EVEN = ("By what the context says, no option is better.", "문맥에 나온 내용으로는 더 나은 선택지가 없습니다.")
_NOT_FOUND = (
    "The given context holds nothing by which the options could be compared.",
    "주어진 문맥에서 선택지를 비교할 내용을 찾지 못했습니다.",
)


def compare(inputs: DecisionInputs) -> Comparison:
    """Scores, passages and a confidence; of each option and criterion at most a few passages."""
    names = [one.name for one in inputs.options or ()]
    criteria = [one.name for one in inputs.criteria or ()] or [""]
    weights = [one.weight for one in inputs.criteria or ()] or [1.0]
    clauses = by_option(inputs.context or "", names)
    columns = [_column(criterion, clauses) for criterion in criteria]
    compared = Comparison("", 0.0, tuple(zip(*columns, strict=True)))
    korean = bool(_HANGUL.search(inputs.question))
    found = recommend(compared, weights)
    if found.option is None:
        return replace(compared, text=(_EVEN if found.tied else _NOT_FOUND)[korean])
    used = [
        name for name, column in zip(criteria, columns, strict=True) if any(one.score is not None for one in column)
    ]
    text = _FOUND[korean].format(criteria=", ".join(filter(None, used)) or "…", name=names[found.option])
    return replace(compared, text=text, confidence=_confidence(compared, weights, found.scores))


def _confidence(compared: Comparison, weights: Sequence[float], scores: Sequence[float | None]) -> float:
    """The share of the weight that was scored, less for options that are close."""
    scored = sum(
        weight * sum(row[number].score is not None for row in compared.judgements)
        for number, weight in enumerate(weights)
    ) / (sum(weights) * len(compared.judgements))
    best, second, *_ = sorted((score for score in scores if score is not None), reverse=True)
    clear = min(1.0, (best - second) / _CLEAR_MARGIN)
    return round(MAX_CONFIDENCE * scored * (0.6 + 0.4 * clear), 2)


def _column(criterion: str, clauses: Sequence[Sequence[Passage]]) -> list[Judgement]:
    """Every option by one criterion."""
    topic = topic_of(criterion)
    spoken = [[(one, at) for one in mine if (at := _place(criterion, topic, one.text)) is not None] for mine in clauses]
    better = topic.better if topic else Better.UNKNOWN
    amounts = _comparable([[found for one, at in mine if (found := amount(one.text, at))] for mine in spoken], better)
    judgements = []
    for mine, found in zip(spoken, amounts, strict=True):
        passages = tuple(one for one, _ in mine)
        score = _by_words(passages, better) if found is None else _by_amount(found, amounts, better)
        judgements.append(Judgement(None if score is None else round(score, 3), evidence=passages[:_MAX_PASSAGES]))
    return judgements


def _place(criterion: str, topic: Topic | None, clause: str) -> int | None:
    """The place at which a clause speaks of the criterion, in characters; None if it doesn't."""
    if topic is not None and (match := topic.pattern.search(clause)):
        return match.start()
    forms = frozenset().union(*words(clause))
    shared = [form for word in words(criterion) for form in word & forms]
    return max(0, clause.casefold().find(max(shared, key=len))) if shared else None


def _comparable(amounts: Sequence[Sequence[Amount]], better: Better) -> list[Amount | None]:
    """Of each option its first amount in the one unit that most options have; None of all if fewer than two have it."""
    units = [one.unit for mine in amounts for one in {found.unit: found for found in mine}.values()]
    if better is Better.UNKNOWN or not units:
        return [None for _ in amounts]
    unit = max(dict.fromkeys(units), key=units.count)
    found = [next((one for one in mine if one.unit == unit), None) for mine in amounts]
    return found if sum(one is not None for one in found) > 1 else [None for _ in amounts]


def _by_amount(one: Amount, amounts: Sequence[Amount | None], better: Better) -> float:
    values = [other.value for other in amounts if other is not None]
    if better is Better.LESS:
        return min(values) / one.value if one.value else 1.0
    return one.value / max(values) if max(values) else 1.0


def _by_words(clauses: Sequence[Passage], better: Better) -> float | None:
    counts = [praise(one.text, better) for one in clauses]
    good, bad = sum(one for one, _ in counts), sum(one for _, one in counts)
    return (good + 0.5) / (good + bad + 1) if good or bad else None
