"""A text in the form in which it is searched, and the way back to the places of the original (RUN-28).

Full-width forms, other scripts' digits, typographic dashes and blanks become ASCII, decomposed Hangul is
composed, and characters without a width are left out, so that `９００１０１－１…` is found like `900101-1…`.
"""

import functools
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

# What NFKC leaves alone and a change of case leaves in its place: most of Western, Korean, Japanese, Chinese.
_PLAIN = "\x00-\x7fÀ-ÖØ-Þà-öø-ÿ가-힣一-鿿ぁ-ゖァ-ヺー、。「」『』“”‘’"
# Soft hyphen, zero-width and direction marks, joiners, byte order mark.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0f\ufeff"
)
_INVISIBLES = re.compile(f"[{_INVISIBLE}]")
# Accents, medial and final Hangul letters, voicing marks: they belong to the character before them. No more than
# 30 are taken at a time, since normalising takes the square of their number.
_JOINING = "\u0300-\u034e\u0350-\u036f\u1161-\u11ff\u3099\u309a\uff9e\uff9f"
_ODD = rf"[{_INVISIBLE}]+|[^{_INVISIBLE}][{_JOINING}]{{1,30}}|[^{_PLAIN}]"
_ODD_CHARACTERS = re.compile(_ODD)
_ODD_CHARACTERS_AND_BLANKS = re.compile(rf"[\s{_INVISIBLE}]{{2,}}|[\t\n\r\f\v]|{_ODD}")
# The last one is a Hangul vowel, which many type for a dash between numbers.
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\u3161"), "-")


@dataclass(frozen=True, slots=True)
class Folded:
    """`text` is made of pieces: copied ones, whose places move together, and replaced ones, taken as a whole."""

    text: str
    _starts: list[int]
    """Start of each piece in `text`."""
    _origins: list[int]
    """Start of each piece in the original, and as the last entry the original's end."""
    _copied: list[bool]

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


def fold(text: str) -> Folded:
    """For numbers and patterns: widths, digits, dashes and blanks made plain; case and line breaks stay."""
    return _folded(text, _ODD_CHARACTERS, for_phrases=False)


def fold_phrases(text: str) -> Folded:
    """For phrases: also without case, and each run of blanks and line breaks one blank."""
    return _folded(text, _ODD_CHARACTERS_AND_BLANKS, for_phrases=True)


def _folded(text: str, odd: re.Pattern[str], *, for_phrases: bool) -> Folded:
    made: list[str] = []
    starts: list[int] = []
    origins: list[int] = []
    copied: list[bool] = []
    length = 0
    for origin, piece, is_odd in _pieces(text, odd):
        # Without the odd ones, a change of case leaves every character in its place.
        new = (_plain(piece) if is_odd else piece).casefold() if for_phrases else _kept_case(piece, is_odd)
        made.append(new)
        starts.append(length)
        origins.append(origin)
        copied.append(not is_odd)
        length += len(new)
    return Folded("".join(made), starts, [*origins, len(text)], copied)


def _kept_case(piece: str, is_odd: bool) -> str:
    return _plain(piece) if is_odd else piece


def _pieces(text: str, odd: re.Pattern[str]) -> Iterator[tuple[int, str, bool]]:
    done = 0
    for match in odd.finditer(text):
        if match.start() > done:
            yield done, text[done : match.start()], False
        yield match.start(), match[0], True
        done = match.end()
    if done < len(text):
        yield done, text[done:], False


@functools.lru_cache(maxsize=4_096)
def _plain(odd: str) -> str:
    normal = unicodedata.normalize("NFKC", odd.translate(_DASHES)).translate(_DASHES)
    visible = _INVISIBLES.sub("", normal)
    return " " if visible.isspace() else "".join(_plain_character(character) for character in visible)


def _plain_character(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    return " " if character.isspace() else character
