"""A text in the form in which it is compared or searched, and the way back to the places of the original (RUN-28).

Full-width forms, other scripts' digits, typographic dashes and blanks become ASCII, decomposed Hangul is composed, and
what can't be seen is left out: a full-width `９００１０１－１…` is found like `900101-1…`. What can't be seen is every
character with Unicode's property Default_Ignorable_Code_Point, as in toNFKC_Casefold (The Unicode Standard, 3.13).
"""

import functools
import unicodedata
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import regex

_INVISIBLE = r"\p{Default_Ignorable_Code_Point}"
_INVISIBLES = regex.compile(f"{_INVISIBLE}+")
# Accents, medial and final Hangul letters, voicing marks: they belong to the character before them. No more than
# 30 are taken at a time, since normalising takes the square of their number.
_JOINING = "\u0300-\u034e\u0350-\u036f\u1161-\u11ff\u3099\u309a\uff9e\uff9f"
# Only what changes a text's length; everything else has been replaced in its place before.
_ODD = rf"{_INVISIBLE}+|\P{{Default_Ignorable_Code_Point}}[{_JOINING}]{{1,30}}|\p{{NFKC_Quick_Check=No}}"
_ODD_PIECES = regex.compile(_ODD)
_ODD_PIECES_AND_BLANKS = regex.compile(rf"[\s{_INVISIBLE}]{{2,}}|{_ODD}|\p{{Changes_When_Casefolded}}")
# The last one is a Hangul vowel, which many type for a dash between numbers.
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\u3161"), "-")


@dataclass(frozen=True, slots=True)
class Folded:
    """`text` is made of pieces: copied ones, whose places move together, and replaced ones, taken as a whole."""

    text: str
    _starts: array[int]
    """Start of each piece in `text`."""
    _origins: array[int]
    """Start of each piece in the original, and as the last entry the original's end."""
    _copied: bytearray

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that `start` to `end` (exclusive, not empty) of `text` was made from."""
        return self._first(start), self._last(end - 1)

    def _first(self, place: int) -> int:
        piece = bisect_right(self._starts, place) - 1
        return self._origins[piece] + (place - self._starts[piece] if self._copied[piece] else 0)

    def _last(self, place: int) -> int:
        piece = bisect_right(self._starts, place) - 1
        if self._copied[piece]:
            return self._origins[piece] + place - self._starts[piece] + 1
        return self._origins[piece + 1]


def without_invisible(text: str) -> str:
    """The text without the characters that can't be seen."""
    return text if text.isascii() else _INVISIBLES.sub("", text)


def fold(text: str) -> Folded:
    """For numbers and patterns: widths, digits, dashes and blanks made plain; case and line breaks stay."""
    return _folded(text, text.translate(_PLAIN), _ODD_PIECES, _plain)


def fold_phrases(text: str) -> Folded:
    """For phrases: also without case, and each run of blanks and line breaks one blank."""
    return _folded(text, text.translate(_PLAIN_WITHOUT_CASE), _ODD_PIECES_AND_BLANKS, _plain_without_case)


def _folded(text: str, plain: str, odd: "regex.Pattern[str]", change: "functools._lru_cache_wrapper[str]") -> Folded:
    made: list[str] = []
    starts, origins, copied = array("L"), array("L"), bytearray()
    length = 0
    for origin, end, is_odd in _pieces(plain, odd):
        # From the original's characters: the first fold of `plain` may have taken one apart.
        new = change(text[origin:end]) if is_odd else plain[origin:end]
        made.append(new)
        starts.append(length)
        origins.append(origin)
        copied.append(not is_odd)
        length += len(new)
    origins.append(len(text))
    return Folded("".join(made), starts, origins, copied)


def _pieces(text: str, odd: "regex.Pattern[str]") -> Iterator[tuple[int, int, bool]]:
    done = 0
    for match in odd.finditer(text):
        if match.start() > done:
            yield done, match.start(), False
        yield match.start(), match.end(), True
        done = match.end()
    if done < len(text):
        yield done, len(text), False


@functools.lru_cache(maxsize=4_096)
def _plain(odd: str) -> str:
    normal = unicodedata.normalize("NFKC", odd.translate(_DASHES)).translate(_DASHES)
    visible = _INVISIBLES.sub("", normal)
    return " " if visible.isspace() else "".join(_plain_character(character) for character in visible)


@functools.lru_cache(maxsize=4_096)
def _plain_without_case(odd: str) -> str:
    return _plain(odd).casefold()


def _plain_character(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    return " " if character.isspace() else character


class _InPlace(dict[int, str]):
    """For `str.translate`: what a character becomes if that is one character, else the character itself."""

    def __init__(self, change: "functools._lru_cache_wrapper[str]", kept: str) -> None:
        super().__init__({ord(character): character for character in kept})
        self._change = change

    def __missing__(self, code: int) -> str:
        plain = self._change(chr(code))
        self[code] = plain if len(plain) == 1 else chr(code)
        return self[code]


_PLAIN = _InPlace(_plain, kept="\t\n\r\f\v\x1c\x1d\x1e\x1f")
_PLAIN_WITHOUT_CASE = _InPlace(_plain_without_case, kept="")
