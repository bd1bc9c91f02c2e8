"""Reads what a clause says of a criterion: a number, or words that praise or blame (RUN-25)."""

import re
from dataclasses import dataclass
from enum import Enum

_FLAGS = re.IGNORECASE


class Better(Enum):
    """The amounts of a criterion that are better."""

    LESS = "less"
    MORE = "more"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Topic:
    """A criterion as many texts speak of it, by other words than its name, too."""

    better: Better
    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit."""

    value: float
    unit: str


def _topic(better: Better, pattern: str) -> Topic:
    return Topic(better, re.compile(pattern, _FLAGS))


_TOPICS = (
    _topic(
        Better.LESS,
        r"\b(?:costs?|pric(?:e|es|ed|ing)|fees?|rents?|budget|expens\w*|cheap\w*|pays?|afford\w*)\b|비용|가격|요금|임대료|비싸|비쌉|저렴|값",
    ),
    _topic(
        Better.LESS,
        r"\b(?:time|duration|deliver\w*|delays?|slow\w*|fast\w*|quick\w*|takes?|lead time|latency)\b"
        r"|기간|시간|납기|배송|느리|느립|빠르|빠릅|걸리|걸립|지연",
    ),
    _topic(Better.LESS, r"\b(?:risks?|risky|danger\w*|safe\w*|secur\w*)\b|위험|안전|보안"),
    _topic(Better.LESS, r"\b(?:effort|complex\w*|simpl\w*|eas[ey]\w*|difficult\w*)\b|난이도|쉽|쉬운|어렵|복잡|간단"),
    _topic(Better.LESS, r"\b(?:distance|far|near\w*|close)\b|거리|가깝|멀"),
    _topic(Better.MORE, r"\b(?:quality|reliab\w*|robust\w*|durab\w*|defects?|failures?|fails?)\b|품질|신뢰|불량|내구"),
    _topic(Better.MORE, r"\b(?:capacity|rooms?|space|seats?|desks?|storage|range)\b|용량|공간|좌석|규모|주행"),
    _topic(
        Better.MORE,
        r"\b(?:performance|speed|throughput|accura\w*|ratings?|scores?|satisf\w*)\b|성능|속도|정확|평점|만족",
    ),
    _topic(Better.MORE, r"\b(?:support\w*|service)\b|지원|서비스"),
)
_AS_A_WHOLE = Topic(Better.UNKNOWN, re.compile(""))

_GOOD = re.compile(
    r"\b(?:cheap\w*|inexpensive|affordable|fast\w*|quick\w*|safe\w*|secure|reliabl[ey]|good|better|best|excellent|great|easy|easier"
    r"|simple\w*|strong\w*|saves?|advantages?|praised?|satisfied|recommend\w*|robust|durable|accurate|near\w*|popular)\b"
    r"|저렴|쌉니다|싸고|빠르|빠릅|빨라|빨리|안전|안정|좋|우수|뛰어|쉽|쉬운|쉬워|간단|가깝|가까|장점|만족|절감|튼튼|정확",
    _FLAGS,
)
_BAD = re.compile(
    r"\b(?:expensive|costly|slow\w*|risky|dangerous|unsafe|insecure|unreliable|bad|worse|worst|poor\w*|difficult|hard|complex"
    r"|weak\w*|problems?|complain\w*|fail\w*|defects?|outages?|late|delay\w*|disadvantages?|broke\w*|lacks?|inaccurate|far)\b"
    r"|비싸|비쌉|비싼|느리|느립|느린|위험|불안|나쁘|나쁩|나쁜|떨어|어렵|어려|복잡|멀|약하|약합|단점|불만|고장|지연|부족|문제|불량",
    _FLAGS,
)
_LITTLE = re.compile(r"\b(?:low\w*|less|few\w*|short\w*|small\w*|little)\b|낮|적|짧|작", _FLAGS)
_MUCH = re.compile(r"\b(?:high\w*|more|long\w*|large\w*|big\w*|many|most)\b|높|많|길|크|넓", _FLAGS)
_NOT = re.compile(r"\b(?:not?|never|without|hardly)\b|n't\b|않|없|(?<![가-힣])안 ", _FLAGS)
_AMOUNT = re.compile(
    r"(?P<currency>[$€£₩])?(?<![\w.])(?P<number>\d{1,15}(?:,\d{3})*(?:\.\d{1,6})?) ?"
    r"(?P<factor>thousand|million|백만|천|만|억)? ?(?P<unit>%|[A-Za-z]{1,12}|[가-힣])?"
)
_FACTORS = {"thousand": 1e3, "million": 1e6, "천": 1e3, "만": 1e4, "백만": 1e6, "억": 1e8}


def topic_of(criterion: str) -> Topic | None:
    """The topic of a criterion's name, None if it is unknown here. An empty name is the option as a whole."""
    if not criterion:
        return _AS_A_WHOLE
    return next((topic for topic in _TOPICS if topic.pattern.search(criterion)), None)


def amount(clause: str, at: int) -> Amount | None:
    """The number of a clause that is nearest to the character at `at`."""
    match = min(_AMOUNT.finditer(clause), key=lambda found: abs(found.start() - at), default=None)
    if match is None:
        return None
    value = float(match["number"].replace(",", "")) * _FACTORS.get(match["factor"] or "", 1.0)
    unit = match["currency"] or (match["unit"] or "").casefold()
    return Amount(value, unit.removesuffix("s") if len(unit) > 1 else unit)


def praise(clause: str, better: Better) -> tuple[int, int]:
    """The numbers of words of a clause that praise and that blame what it speaks of; a negation swaps them."""
    good, bad = len(_GOOD.findall(clause)), len(_BAD.findall(clause))
    little, much = len(_LITTLE.findall(clause)), len(_MUCH.findall(clause))
    if better is Better.LESS:
        good, bad = good + little, bad + much
    elif better is Better.MORE:
        good, bad = good + much, bad + little
    return (bad, good) if _NOT.search(clause) else (good, bad)
