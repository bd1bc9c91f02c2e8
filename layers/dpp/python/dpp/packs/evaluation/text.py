"""Brings texts into the form in which they are compared: normalised, and cut into tokens (RUN-28).

The rules are those of SQuAD (lower case, no punctuation, no articles) and KorQuAD (a token of Korean is a
syllable, since particles and endings are glued to a word), with exceptions where those would call different
answers equal: a minus and the marks inside 1.5, 1,5, 10:30 and 1/2 stay, and so do articles that are all there
is (the choice "A").
"""

import re
import unicodedata
from typing import Literal

from dpp.packs.folding import without_invisible

type HangulUnit = Literal["syllable", "word"]

_ARTICLES = frozenset({"a", "an", "the"})
# Of all that is neither letter, digit nor blank: what stands inside a number, then anything else.
_THOUSANDS = r"(?<=\d),(?=\d{3}(?!\d))"
_KEPT = r"(?<=\d)[.,:/](?=\d)|(?<![\w.])-(?=\.?\d)"
_MARK = re.compile(rf"{_THOUSANDS}|(?P<kept>{_KEPT})|[^\w\s]|_")
_HANGUL = "가-힣\u1100-\u11ff"
# Chinese characters and kana stand without blanks, so each is a token of its own.
_SINGLE = "一-鿿㐀-䶿぀-ヿ"
_SYLLABLES = re.compile(rf"[{_HANGUL}{_SINGLE}]|[^\s{_HANGUL}{_SINGLE}]+")
_WORD = re.compile(rf"[{_SINGLE}]|[^\s{_SINGLE}]+")


def normalized(text: str) -> str:
    """NFKC, without case, invisible characters, punctuation, English articles, superfluous blanks; 1,000 is 1000."""
    words = _words(text)
    return " ".join([word for word in words if word not in _ARTICLES] or words)


def tokens(text: str, hangul_unit: HangulUnit) -> list[str]:
    """The tokens of `text`, normalised, articles too: a run of Latin letters and digits is one."""
    return (_SYLLABLES if hangul_unit == "syllable" else _WORD).findall(" ".join(_words(text)))


def content_tokens(text: str, hangul_unit: HangulUnit) -> list[str]:
    """The same without English articles."""
    return (_SYLLABLES if hangul_unit == "syllable" else _WORD).findall(normalized(text))


def _words(text: str) -> list[str]:
    # toNFKC_Casefold of the Unicode Standard (3.13), so without what can't be seen.
    visible = without_invisible(unicodedata.normalize("NFKC", without_invisible(text)).casefold())
    folded = unicodedata.normalize("NFKC", visible)
    return _MARK.sub(_without_mark, folded.replace("\u2212", "-")).split()


def _without_mark(match: re.Match[str]) -> str:
    if match["kept"]:
        return match[0]
    # Symbols (€, +) and marks that belong to a letter before them are no punctuation, and stay.
    return "" if unicodedata.category(match[0]).startswith("P") else match[0]
