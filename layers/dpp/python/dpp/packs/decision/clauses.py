"""Assigns the clauses of a text to the options that they speak of (RUN-25)."""

import re
from collections.abc import Iterator, Sequence

from dpp.packs.decision.answers import Passage
from dpp.packs.decision.sentences import Sentence, split
from dpp.packs.decision.terms import words

_CLAUSE_END = re.compile(
    r"[,;:]\s+|\s(?=(?:but|while|whereas|although|though|and|than)\s)|(?<=지만|는데|으나|하나)\s|(?<=[가-힣][며고])\s",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"(?:it|its|they|their|this|these|이것|이곳|그것|또한|다만|대신|하지만|그러나)\b|(?:이|그|해당) ", re.IGNORECASE
)
_CASE_MATTERS_UP_TO = 2
"""An option "A" is not the article."""


class Names:
    """Finds the options that a text names."""

    def __init__(self, names: Sequence[str]) -> None:
        each = [frozenset(words(name)) for name in names]
        self._literal = [_literal(name.strip()) for name in names]
        # The words by which an option differs from all others: of "Plan Basic" and "Plan Pro", basic and pro.
        self._own = [
            mine - frozenset().union(*(other for number, other in enumerate(each) if number != this))
            for this, mine in enumerate(each)
        ]

    def named(self, text: str) -> set[int]:
        """The numbers of the options that `text` names, by the whole name or by all words that only they have."""
        forms = frozenset().union(*words(text))
        return {
            number
            for number, (literal, own) in enumerate(zip(self._literal, self._own, strict=True))
            if literal.search(text) or (own and all(word & forms for word in own))
        }


def by_option(context: str, names: Sequence[str]) -> list[list[Passage]]:
    """Of each option, the clauses that speak of it, in the order of the context.

    A sentence that names one option speaks of it as a whole. A sentence that begins like one that goes on, and names no
    option, speaks of the option before.
    """
    found: list[list[Passage]] = [[] for _ in names]
    finder, last = Names(names), set[int]()
    for sentence in split(context):
        named = finder.named(sentence.text)
        if not named and _GOES_ON.match(sentence.text):
            named = last
        if len(named) == 1:
            found[next(iter(named))].append(Passage(sentence.text, sentence.start, sentence.end))
        elif named:
            for number, clause in _shared(sentence, finder):
                found[number].append(clause)
        last = named if len(named) == 1 else set()
    return found


def _shared(sentence: Sentence, finder: Names) -> Iterator[tuple[int, Passage]]:
    """The clauses of a sentence with several options; one that names none goes on with the option before."""
    speaks_of: int | None = None
    for clause in _clauses(sentence):
        named = finder.named(clause.text)
        if len(named) == 1:
            speaks_of = next(iter(named))
        elif named:
            speaks_of = None
        if speaks_of is not None:
            yield speaks_of, clause


def _clauses(sentence: Sentence) -> Iterator[Passage]:
    at = 0
    for end in [*(match.end() for match in _CLAUSE_END.finditer(sentence.text)), len(sentence.text)]:
        text = sentence.text[at:end].strip()
        if text:
            start = sentence.start + sentence.text.index(text, at)
            yield Passage(text, start, start + len(text))
        at = end


def _literal(name: str) -> re.Pattern[str]:
    # Korean glues particles to a name, so only a Latin letter or digit behind it makes another word.
    flags = re.IGNORECASE if len(name) > _CASE_MATTERS_UP_TO else re.NOFLAG
    return re.compile(rf"(?<!\w){re.escape(name)}(?![A-Za-z0-9])", flags)
