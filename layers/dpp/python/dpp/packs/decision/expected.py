"""Recognises what a question asks for, and if a sentence has it: a time, an amount, a person, a place."""

import re
from dataclasses import dataclass

_FLAGS = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class _Kind:
    asked: re.Pattern[str]
    found: re.Pattern[str]


_NUMBER = (
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|half|twice|nothing|free)\b"
    r"|무료|절반|(?:한|두|세|네|다섯|여섯|일곱|여덟|아홉|열|[일이삼사오육칠팔구십백천만억]+) ?"
    r"(?:원|개|명|번|권|대|배|퍼센트|층|시|분|일|월|년|주|달)"
)
_TIME = (
    r"\d ?(?::|시|분|일|월|년|주|개월|a\.?m|p\.?m|o'clock)|\b(?:19|20)\d\d\b"
    r"|\b(?:noon|midnight|morning|evening|today|tomorrow|daily|weekly|monthly|yearly)\b"
    r"|\b(?:hour|day|week|month|quarter|year|minute|second)s?\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b"
    r"|\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
    r"|요일|매일|매주|매달|매년|분기|하루|이틀|사흘|오전|오후|정오|내일|오늘|(?:한|두|세|네|다섯) ?(?:시|달|주|해)"
    r"|전까지|결제 후"
)
_PERSON = (
    r"(?<=[a-z] )[A-Z][a-z]+|\b(?:Dr|Mr|Mrs|Ms|Prof)\.|\b(?:[Tt]he|[Aa]n?|[Oo]ur|by) \w+"
    r"|(?:님|씨|팀|장|대리|회사|고객|담당자|상인들?|센터|부서|위원회)[이가은는]?\b"
)
_KINDS = (
    _Kind(
        re.compile(
            r"\bwhen\b|\bwhat (?:time|date|day|year)\b|\bhow (?:long|soon|often|early|late|quickly)\b"
            r"|언제|몇 ?시|며칠|몇 ?월|몇 ?년|얼마나 (?:걸|오래|자주)|기간",
            _FLAGS,
        ),
        re.compile(_TIME, _FLAGS),
    ),
    _Kind(
        re.compile(r"\bhow (?:much|many|high|large|big|far|tall)\b|\b(?:cost|price|fee)\b|얼마|몇", _FLAGS),
        re.compile(_NUMBER, _FLAGS),
    ),
    _Kind(re.compile(r"\bwho(?:m|se)?\b|누구|누가", _FLAGS), re.compile(_PERSON)),
    _Kind(
        re.compile(r"\bwhere\b|어디", _FLAGS),
        re.compile(r"\b(?:in|at|on|to|from|near|under|behind|beside)\b|에서|[가-힣]에 |층|홈페이지", _FLAGS),
    ),
)


def fits(question: str, sentence: str) -> int:
    """1 if the sentence has what the question asks for, -1 if it lacks it, 0 if the question asks for none of these."""
    asked = [kind for kind in _KINDS if kind.asked.search(question)]
    if not asked:
        return 0
    return 1 if asked[0].found.search(sentence) else -1
