"""Splits Korean and English text into sentences, with their positions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_SENTENCE_CHARACTERS = 600
"""A longer "sentence" is a table, a log or minified text; it is cut at a blank where there is one."""

_BOUNDARY = re.compile(
    r"""
      \n\s*                                  # a line end
    | (?<=[.!?…])["'”’)\]]*\s+               # a full stop and a blank, quotes closed in between
    | (?<=[。！？])["'”’)\]]*\s*              # a full-width stop needs no blank
    | (?<=[가-힣][.!?])(?=[가-힣])            # nor does Korean when written in haste: 했다.그러나
    """,
    re.VERBOSE,
)
_ABBREVIATION = re.compile(r"(?<![\w.])(?:mr|mrs|ms|dr|prof|st|no|vs|fig|e\.g|i\.e|cf|approx)\.$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text` stands at `start` to `end` (exclusive, in characters) of the context."""

    text: str
    start: int
    end: int


def split(text: str) -> Iterator[Sentence]:
    """The sentences of `text` in their order, blanks around them left out."""
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        # The closing quotes belong to the sentence before them.
        end = boundary.start() + len(boundary[0]) - len(boundary[0].lstrip("\"'”’)]"))
        # A short look back is enough for an abbreviation, and keeps the whole linear.
        if "\n" not in boundary[0] and _ABBREVIATION.search(text, max(start, end - 10), end):
            continue
        yield from _pieces(text, start, end)
        start = boundary.end()
    yield from _pieces(text, start, len(text))


def _pieces(text: str, start: int, end: int) -> Iterator[Sentence]:
    while start < end:
        stop = min(end, start + MAX_SENTENCE_CHARACTERS)
        if stop < end:
            blank = text.rfind(" ", start + 1, stop)
            stop = blank if blank > start else stop
        piece = text[start:stop]
        stripped = piece.strip()
        if stripped:
            at = start + piece.index(stripped)
            yield Sentence(stripped, at, at + len(stripped))
        start = stop
