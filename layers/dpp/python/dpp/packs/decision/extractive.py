"""The offline engine: finds the sentences of the context that answer the question, and quotes them (RUN-25).

It understands nothing. Without a context, or without a sentence that shares words with the question, it says that it
has no answer.
"""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dpp.packs.decision.answers import Answer, Passage
from dpp.packs.decision.confidence import MAX_CONFIDENCE_OF_ONE_WORD, Features, confidence
from dpp.packs.decision.expected import fits
from dpp.packs.decision.sentences import Sentence, split
from dpp.packs.decision.terms import words
from dpp.packs.inputs.decision import DecisionInputs

ENGINE = "extractive"
_FULL_SENTENCES = 5
_FULL_COVERAGE_SHARE = 0.35
"""In full mode, a sentence has to have at least this share of what the best one has of the question."""
_MIN_COVERAGE = 0.2
_FIT_BONUS = 0.15
_PART_OF_A_WORD = 0.5
"""A word that only begins like the question's, as 환불규정 does like 환불, counts half."""

_HANGUL = re.compile("[가-힣]")
_NO_CONTEXT = (
    "No context was given, and this engine answers from a given context only.",
    "문맥(context)이 주어지지 않았습니다. 이 엔진은 주어진 문맥에서만 답을 찾습니다.",
)
_NOT_FOUND = (
    "The given context holds no sentence that answers the question.",
    "주어진 문맥에서 질문에 답하는 문장을 찾지 못했습니다.",
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A sentence, its score among the others, and what it shares with the question."""

    sentence: Sentence
    score: float
    features: Features


def answer(inputs: DecisionInputs) -> Answer:
    """The best sentence (brief), or the best few in the order of the text (full), with their places."""
    korean = bool(_HANGUL.search(inputs.question))
    if inputs.context is None or not inputs.context.strip():
        return Answer(text=_NO_CONTEXT[korean], confidence=0.0)
    ranked = rank(inputs.question, list(split(inputs.context)))
    if not ranked or ranked[0].features.coverage < _MIN_COVERAGE:
        return Answer(text=_NOT_FOUND[korean], confidence=0.0)
    chosen = ranked[:1] if inputs.mode == "brief" else _several(ranked)
    return Answer(
        text="\n".join(one.sentence.text for one in chosen),
        confidence=_confidence(inputs.question, ranked[0]),
        evidence=tuple(
            Passage(one.sentence.text, one.sentence.start, one.sentence.end, round(one.features.coverage, 3))
            for one in chosen
        ),
    )


def rank(question: str, sentences: Sequence[Sentence]) -> list[Ranked]:
    """The sentences that share a word with the question, best first; of equals, the earlier one."""
    asked = list(dict.fromkeys(words(question)))
    shares = [_shares(asked, sentence.text) for sentence in sentences]
    holding: dict[int, int] = defaultdict(int)
    for share in shares:
        for number in share:
            holding[number] += 1
    weights = [math.log(1 + (len(sentences) + 1) / (holding[number] + 0.5)) for number in range(len(asked))]
    total = sum(weights)
    ranked = []
    for sentence, share in zip(sentences, shares, strict=True):
        if share:
            coverage = sum(weights[number] * part for number, part in share.items()) / total
            complete = float(sum(share.values()) == len(asked))
            features = Features(coverage, complete, fits(question, sentence.text))
            ranked.append(Ranked(sentence, coverage + _FIT_BONUS * features.fit, features))
    return sorted(ranked, key=lambda one: (-one.score, one.sentence.start))


def _confidence(question: str, best: Ranked) -> float:
    by_chance = len(set(words(question))) == 1 and best.features.fit < 1
    most = MAX_CONFIDENCE_OF_ONE_WORD if by_chance else 1.0
    return round(min(most, confidence(best.features)), 2)


def _several(ranked: Sequence[Ranked]) -> list[Ranked]:
    least = ranked[0].features.coverage * _FULL_COVERAGE_SHARE
    chosen: dict[str, Ranked] = {}
    for one in ranked:
        if len(chosen) == _FULL_SENTENCES:
            break
        if one.features.coverage >= least:
            chosen.setdefault(one.sentence.text, one)
    return sorted(chosen.values(), key=lambda one: one.sentence.start)


def _shares(asked: Sequence[frozenset[str]], text: str) -> dict[int, float]:
    """Of each of the question's words that the text has, by its number: 1, or less for a part of a word."""
    by_form = {form: number for number, forms in enumerate(asked) for form in forms}
    by_beginning = {form[:2]: number for form, number in by_form.items() if len(form) > 1 and _HANGUL.match(form)}
    found: dict[int, float] = {}
    for forms in words(text):
        numbers = {by_form[form] for form in forms if form in by_form}
        found |= dict.fromkeys(numbers, 1.0)
        if not numbers:
            for form in forms:
                if (number := by_beginning.get(form[:2])) is not None:
                    found.setdefault(number, _PART_OF_A_WORD)
    return found
