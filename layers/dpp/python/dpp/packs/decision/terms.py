"""Turns words into forms that can be compared: stems in English, and in Korean the word without its endings.

Korean glues particles and endings to a word (환불은, 환불이, 신청하나요, 신청합니다). There is no dictionary here:
a word has several forms, each with one more ending cut off, and two words agree if they have a form in common.
"""

import re
import unicodedata

_HANGUL = "가-힣ㄱ-ㆎ"
# Chinese characters and kana stand without blanks, so each pair of them counts as a word.
_PAIRED = "぀-ヿ一-鿿"
_WORD = re.compile(rf"[{_HANGUL}]+|[{_PAIRED}]{{1,2}}|(?:(?![{_HANGUL}{_PAIRED}])[^\W_])+")
_KOREAN = re.compile(rf"[{_HANGUL}]")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SAYING_NOTHING_IN_ENGLISH = (
    "a about an and any are as at be been but by can could did do does for from had has have how i if in into "
    "is it its long many may me might much must my of on often or our should so than that the their them then there "
    "these they this to was we were what when where which who whom whose why will with would you your"
)
_ENGLISH_STOPWORDS = frozenset(_listed(_SAYING_NOTHING_IN_ENGLISH))
_KOREAN_QUESTION_WORDS = tuple(_listed("무엇 무슨 뭐 언제 어디 누구 누가 어떻 어떤 어느 얼마 몇 며칠 왜"))
_KOREAN_STOPWORDS = frozenset(
    _listed("있 없 하 되 이 그 저 수 것 등 및 때 있나요 있습니까 있습니다 하나요 합니까 되나요 됩니까 입니까")
)
_FINAL = _listed(
    "습니까 습니다 니까 니다 는가요 은가요 인가요 가요 나요 까요 아요 어요 지요 세요 아야 어야 여야 으면 면 지만 "
    "지 고 며 아서 어서"
)
_VERB = _listed("하였 하는 하기 되는 되기 되어 됐 되었 했 하 되 한 할 함 해 된 될 돼 었 았 는 은 을")
_PARTICLE = _listed(
    "으로부터 로부터 에게서 에서는 에서도 까지는 까지 부터 에서 에게 께서 으로 처럼 마다 보다 이나 이며 이고 라도 "
    "만큼 밖에 에는 에도 은 는 이 가 을 를 의 에 로 와 과 도 만 나 들 간"
)
_SYLLABLE_BASE, _SYLLABLE_END, _FINALS, _FINAL_B, _FINAL_N = 0xAC00, 0xD7A3, 28, 17, 4


def words(text: str) -> list[frozenset[str]]:
    """The words of `text`, each with its forms; words that only ask or join are left out."""
    normal = unicodedata.normalize("NFKC", text).casefold()
    found = (forms(word) for word in _WORD.findall(normal) if not word.startswith(_KOREAN_QUESTION_WORDS))
    return [one for one in found if one]


def forms(word: str) -> frozenset[str]:
    """The forms of a word, itself among them; none for a word that says nothing."""
    if word in _ENGLISH_STOPWORDS:
        return frozenset()
    if not _KOREAN.match(word):
        return frozenset({_stem(word)})
    found = {word}
    for endings in (_FINAL, _VERB, _PARTICLE):
        found |= {shorter for one in found for shorter in _cut(one, endings)}
    return (
        frozenset() if found & _KOREAN_STOPWORDS and len(word) <= 4 and min(map(len, found)) == 1 else frozenset(found)
    )


def _cut(word: str, endings: tuple[str, ...]) -> list[str]:
    """The word without its longest ending, if one is left; 합니다 and 한가요 leave 하."""
    for ending in endings:
        rest = word.removesuffix(ending)
        if rest and rest != word:
            plain = _without_final(rest) if ending in {"니까", "니다", "가요"} else rest
            return [rest, plain] if plain != rest else [rest]
    return []


def _without_final(word: str) -> str:
    """A last syllable that ends in ㅂ or ㄴ, as verbs do before these endings, without it."""
    code = ord(word[-1])
    if not _SYLLABLE_BASE <= code <= _SYLLABLE_END:
        return word
    final = (code - _SYLLABLE_BASE) % _FINALS
    return word[:-1] + chr(code - final) if final in {_FINAL_B, _FINAL_N} else word


def _stem(word: str) -> str:
    """Cut English endings off; crude, but the same on both sides of a comparison."""
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return (word[: -len(ending)] + instead).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word
