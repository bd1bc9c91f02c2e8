"""Turns words into what can be compared: stems for languages with blanks, character pairs for Korean.

Korean glues particles and endings to a word (환불은, 환불이, 환불을). Pairs of characters meet in what
those have in common, without a dictionary; the first pair is nearly always the stem's.
"""

import re
import unicodedata

# Hangul, kana and Chinese characters are taken in pairs; any other run of letters or digits is one word.
_PAIRED = "가-힣ㄱ-ㆎ぀-ヿ一-鿿"
_WORD = re.compile(rf"[{_PAIRED}]+|(?:(?![{_PAIRED}])[^\W_])+")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")

_SAYING_NOTHING_IN_ENGLISH = (
    "a about an and any are as at be been but by can could did do does for from had has have how i if in into "
    "is it its may me might my of on or our should so than that the their them then there these they this to "
    "was we were what when where which who whom whose why will with would you your"
)
_ENGLISH_STOPWORDS = frozenset(_SAYING_NOTHING_IN_ENGLISH.split())
_KOREAN_QUESTION_WORDS = ("무엇", "무슨", "언제", "어디", "누구", "누가", "어떻", "어떤", "어느", "얼마", "몇", "왜")


def words(text: str) -> list[tuple[str, ...]]:
    """The words of `text`, each as its terms; words that only ask or join are left out."""
    normal = unicodedata.normalize("NFKC", text).casefold()
    return [_terms(word) for word in _WORD.findall(normal) if not _says_nothing(word)]


def terms(text: str) -> list[str]:
    """All terms of `text`, repeated as often as they occur."""
    return [term for word in words(text) for term in word]


def _terms(word: str) -> tuple[str, ...]:
    if not _IS_PAIRED.match(word):
        return (_stem(word),)
    if len(word) == 1:
        return (word,)
    return tuple(word[at : at + 2] for at in range(len(word) - 1))


def _says_nothing(word: str) -> bool:
    return word in _ENGLISH_STOPWORDS or word.startswith(_KOREAN_QUESTION_WORDS)


def _stem(word: str) -> str:
    """Cut English endings off; crude, but the same on both sides of a comparison."""
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return (word[: -len(ending)] + instead).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
