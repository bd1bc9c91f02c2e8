"""Tells whether a text is in a language whose wordings the presets know."""

import re
from collections.abc import Iterable

SAMPLE_CHARACTERS = 20_000
"""So much of each document is looked at."""

_LETTERS = re.compile(r"[^\W\d_]")
_HANGUL = re.compile("[가-힣]")
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_NEITHER_HANGUL_NOR_LATIN = re.compile(r"(?![가-힣a-z])[^\W\d_]")
_LEAST_KOREAN = 0.2
_MOST_FOREIGN = 0.3
_LEAST_ENGLISH = 0.12
# Common in English, and rare in other languages with Latin letters.
_COMMON = (
    "the and or of to for with is are be been your you our we us this that it its from by as not will may can "
    "have has which any all who when how what than more than only now new get free buy best these their they was "
    "were does do without about after before per shall such other up out if under every each "
)
_ENGLISH = frozenset(_COMMON.split())


def is_korean_or_english(texts: Iterable[str]) -> bool:
    """Return whether the folded texts, together, are mostly Korean or English."""
    sample = " ".join(text[:SAMPLE_CHARACTERS] for text in texts)
    letters = len(_LETTERS.findall(sample))
    if not letters or len(_NEITHER_HANGUL_NOR_LATIN.findall(sample)) > _MOST_FOREIGN * letters:
        return False
    if len(_HANGUL.findall(sample)) >= _LEAST_KOREAN * letters:
        return True
    words = _WORD.findall(sample)
    return sum(word in _ENGLISH for word in words) >= max(1, _LEAST_ENGLISH * len(words))
