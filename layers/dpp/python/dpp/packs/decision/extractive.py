"""The offline engine: finds the sentences of the context that answer the question, and says so (RUN-25).

Ranks by BM25 (Robertson and Zaragoza, 2009) over the terms of `terms`. It understands nothing: it quotes.
Without a context, or without a sentence that shares words with the question, it says that it has no answer.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dpp.packs.decision.engine import Answer, Evidence
from dpp.packs.decision.sentences import Sentence, split
from dpp.packs.decision.terms import terms, words
from dpp.packs.inputs.decision import DecisionInputs

_K1 = 1.2
_B = 0.75
_FULL_SENTENCES = 5
_FULL_COVERAGE_SHARE = 0.5
"""In full mode, a sentence has to have half as many of the question's words as the best one."""
_MIN_COVERAGE = 0.2
_MAX_CONFIDENCE = 0.9
"""Sharing every word with the question still doesn't make a sentence its answer."""

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
class _Ranked:
    sentence: Sentence
    score: float
    coverage: float


class ExtractiveEngine:
    """Quotes the context; needs no provider and no time to speak of."""

    name = "extractive"

    def answer(
        self,
        inputs: DecisionInputs,
        *,
        deadline: float,  # noqa: ARG002 - the protocol's; the largest context takes about a second
    ) -> Answer:
        """The best sentence (brief), or the best few in the order of the text with their places (full)."""
        korean = bool(_HANGUL.search(inputs.question))
        if inputs.context is None or not inputs.context.strip():
            return Answer(text=_NO_CONTEXT[korean], confidence=0.0)
        ranked = _rank(inputs.question, list(split(inputs.context)))
        if not ranked or ranked[0].coverage < _MIN_COVERAGE:
            return Answer(text=_NOT_FOUND[korean], confidence=0.0)
        chosen = ranked[:1] if inputs.mode == "brief" else _several(ranked)
        return Answer(
            text="\n".join(one.sentence.text for one in chosen),
            confidence=_confidence(inputs.question, ranked[0]),
            evidence=tuple(
                Evidence(one.sentence.text, one.sentence.start, one.sentence.end, round(one.score, 3)) for one in chosen
            ),
        )


def _several(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    least = ranked[0].coverage * _FULL_COVERAGE_SHARE
    chosen: dict[str, _Ranked] = {}
    for one in ranked:
        if len(chosen) == _FULL_SENTENCES:
            break
        if one.coverage >= least:
            chosen.setdefault(one.sentence.text, one)
    return sorted(chosen.values(), key=lambda one: one.sentence.start)


def _rank(question: str, sentences: list[Sentence]) -> list[_Ranked]:
    """The sentences that share a term with the question, best first; of equals, the earlier one."""
    asked = words(question)
    wanted = {term for word in asked for term in word}
    counts = [Counter(terms(sentence.text)) for sentence in sentences]
    lengths = [count.total() for count in counts]
    average = sum(lengths) / len(lengths) if lengths else 0.0
    holding = Counter(term for count in counts for term in count.keys() & wanted)
    weights = {term: math.log(1 + (len(sentences) - n + 0.5) / (n + 0.5)) for term, n in sorted(holding.items())}
    ranked = [
        _Ranked(sentence, _bm25(count, weights, length / average), _coverage(asked, count))
        for sentence, count, length in zip(sentences, counts, lengths, strict=True)
        if count.keys() & wanted
    ]
    return sorted(ranked, key=lambda one: (-one.score, one.sentence.start))


def _bm25(count: Counter[str], weights: dict[str, float], relative_length: float) -> float:
    norm = _K1 * (1 - _B + _B * relative_length)
    return sum(weight * count[term] * (_K1 + 1) / (count[term] + norm) for term, weight in weights.items())


def _coverage(asked: Sequence[tuple[str, ...]], count: Counter[str]) -> float:
    """The share of the question's words that the sentence has; of a Korean word, its stem is enough."""
    if not asked:
        return 0.0
    return sum(1.0 if word[0] in count else _share(word, count) for word in asked) / len(asked)


def _share(word: tuple[str, ...], count: Counter[str]) -> float:
    return sum(term in count for term in word) / len(word)


def _confidence(question: str, best: _Ranked) -> float:
    # One shared word out of one asked may be chance; the more words agree, the less likely that is.
    certainty = 1 - 0.5 ** len(words(question))
    return round(_MAX_CONFIDENCE * best.coverage * certainty, 2)
