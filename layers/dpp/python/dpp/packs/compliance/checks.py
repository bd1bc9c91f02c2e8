"""Bounds on the number of checks, and the surroundings that make a candidate more or less likely (RUN-28)."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from dpp.packs.compliance.findings import Candidate

MAX_CHECKS = 250_000
"""Checks by a library of one rule set in all documents together. A check takes up to 0.1 ms."""

_KEYWORD_REACH = 40
"""The word that identifies a number is searched in this many characters before it."""

# What looks like personal data and is none. Alternatives that start alike: the longer one first.
_LOOKALIKE = re.compile(
    r"""(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Za-z])  # UUID
      | (?<![0-9A-Za-z])(?=[0-9]{0,63}[A-Fa-f])[0-9A-Fa-f]{32,128}(?![0-9A-Za-z])            # digest
      | (?<![0-9A-Za-z.,])(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z]|[.-][0-9])  # decimal
      | (?<![0-9A-Za-z.,])0,[0-9]+(?![0-9A-Za-z]|[.,-][0-9])                                 # the same with a comma
      | (?<![0-9])(?:19|20)[0-9]{2}([-./])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12][0-9]|3[01])
        (?:[T ][0-2][0-9]:[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,9})?)?(?:Z|[ ]?[+-][0-2][0-9]:?[0-5][0-9])?)?
        (?![0-9])                                                                            # ISO 8601 date, time, zone
      | \bISBN(?:-1[03])?:?[ ]?(?:97[89][ -]?)?(?:[0-9][ -]?){9}[0-9X](?![0-9])""",
    re.VERBOSE,
)

_NOWHERE = (sys.maxsize, sys.maxsize)


class TooManyChecksError(Exception):
    """The rule set has used up its checks; what it found so far is not all there is."""


@dataclass(slots=True)
class Checks:
    """The checks that a rule set may still make. Shared by all documents, so that the whole run is bounded."""

    left: int = MAX_CHECKS

    def spend(self, checks: int = 1) -> None:
        """Count before a check. Raises TooManyChecksError."""
        self.left -= checks
        if self.left < 0:
            raise TooManyChecksError


def digits(text: str) -> str:
    """The digits of `text`."""
    return "".join(character for character in text if character in "0123456789")


def is_named_by(word: re.Pattern[str], text: str, place: int) -> bool:
    """Return whether the word stands shortly before `place`."""
    return word.search(text, max(0, place - _KEYWORD_REACH), place) is not None


def lookalikes(text: str) -> Iterator[tuple[int, int]]:
    """The spans of decimals, digests, UUIDs, dates and ISBNs, in the order of the text."""
    return (match.span() for match in _LOOKALIKE.finditer(text))


def outside_of(spans: Iterator[tuple[int, int]], candidates: list[Candidate]) -> list[Candidate]:
    """The candidates, in the order of the text, that don't start inside one of the spans."""
    kept: list[Candidate] = []
    start, end = next(spans, _NOWHERE)
    for one in sorted(candidates, key=lambda one: one.start):
        while end <= one.start:
            start, end = next(spans, _NOWHERE)
        if one.start < start:
            kept.append(one)
    return kept
