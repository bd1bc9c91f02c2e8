"""Phone numbers by libphonenumber's rules: international, Korean, and national ones of other countries (RUN-28)."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import phonenumbers

from dpp.packs.compliance.checks import Checks, digits, is_named_by, outside_of
from dpp.packs.compliance.findings import Candidate

KOREAN = "kr_phone"
INTERNATIONAL = "international_phone"

# The longest number of E.164, a trunk zero in parentheses, and one that is cut off again.
_MAX_DIGITS = 18
_KOREA = 82

_PLUS = re.compile(
    rf"""(?<![0-9A-Za-z+])(?:\(?\+[ ]?\(?|(?<![.,-])(?P<zeros>\(?00[ ]?(?=[1-9])))
      [1-9](?:[ ./()-]{{0,3}}[0-9]){{5,{_MAX_DIGITS}}}(?![0-9])""",
    re.VERBOSE,
)
# RFC 5733 writes +1.7035555555. Unless the country has such a number, it is a decimal with a sign.
_SIGNED_DECIMAL = re.compile(r"\+[0-9]+\.[0-9]+")
_GROUP_END = re.compile(r"[0-9](?![0-9])")

_KOREAN_NATIONAL = re.compile(
    r"""(?<![0-9])(?<![0-9]-)(?:(?P<country>82[ .-]?(?:\(0\)|0)?)|(?P<open>\()?0)
      (?P<area>[1-9][0-9]{0,2}?)(?(open)\)[ ]?|(?P<separator>[ .-])?)
      [0-9]{3,4}[ .-]?[0-9]{4}(?![0-9])(?!-[0-9])""",
    re.VERBOSE,
)
# Three, three and four digits, as in the United States and Canada.
_NORTH_AMERICAN = re.compile(
    r"""(?<![0-9A-Za-z+])(?<![0-9][.-])(?:1[ .-]?)?(?:\([2-9][0-9]{2}\)[ ]?|[2-9][0-9]{2}(?P<separator>[ .-]))
      [0-9]{3}[ .-][0-9]{4}(?![0-9])(?![.-][0-9])""",
    re.VERBOSE,
)
_NATIONAL = re.compile(
    rf"(?<![0-9A-Za-z+])(?<![0-9][.-])\(?[0-9](?:[ ./()-]{{0,2}}[0-9]){{8,{_MAX_DIGITS - 4}}}(?![0-9])(?![.-][0-9])"
)
REGIONS = ("US", "GB", "AU", "NZ", "IE", "IN", "ZA", "JP", "CN", "TW", "IL", "DE", "FR", "IT", "ES", "BR", "TR", "PH")
"""Regions whose national numbers are known after a word; US stands for all of +1."""
_OF_A_COUNTRY = (
    "US|American|UK|British|Australian|New Zealand|Irish|Indian|South African|JP|Japanese|CN|Chinese|Taiwanese|"
    "Israeli|German|French|Italian|Spanish|Brazilian|Turkish|Philippine"
)
_WORD = re.compile(
    rf"phone|\btel\b|telefon|telefax|mobile|\bcell\b|\bfax\b|\bcall\b|whatsapp|\b(?:{_OF_A_COUNTRY}) number"
    r"|전화|연락처|휴대|핸드폰|팩스",
    re.IGNORECASE,
)
_WORD_REACH = 40


class _Read(NamedTuple):
    """The text from `start` to `end`, as libphonenumber reads it."""

    start: int
    end: int
    country: int
    valid: bool


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Numbers of any country, as candidates of `INTERNATIONAL`."""
    for one in _with_country_code(text, checks):
        yield Candidate(INTERNATIONAL, one.start, one.end, "medium" if one.valid else "low")
    for match in _NORTH_AMERICAN.finditer(text):
        if _is_valid(match[0], "US", checks):
            plain = match["separator"] == " " and not is_named_by(_WORD, text, match.start())
            yield Candidate(INTERNATIONAL, match.start(), match.end(), "low" if plain else "medium")
    yield from _after_a_word(text, checks)


def find_korean(text: str, checks: Checks) -> Iterator[Candidate]:
    """Korean numbers, with the country's code or without, as candidates of `KOREAN`."""
    international = list(_with_country_code(text, checks))
    for one in international:
        if one.country == _KOREA:
            yield Candidate(KOREAN, one.start, one.end, "medium" if one.valid else "low")
    # Italian numbers, for one, have a zero behind the country's code.
    yield from outside_of(((one.start, one.end) for one in international), list(_korean_national(text, checks)))


def _korean_national(text: str, checks: Checks) -> Iterator[Candidate]:
    for match in _KOREAN_NATIONAL.finditer(text):
        number = f"+{match[0]}" if match["country"] else match[0]
        if _is_valid(number, "KR", checks):
            written = match["country"] or match["open"] or match["separator"] or match["area"].startswith("1")
            named = written or is_named_by(_WORD, text, match.start())
            yield Candidate(KOREAN, match.start(), match.end(), "medium" if named else "low")


def _with_country_code(text: str, checks: Checks) -> Iterator[_Read]:
    for match in _PLUS.finditer(text):
        read = _longest(text, match.start(), match.end(), None, checks)
        if match["zeros"] is None:
            if read is not None:
                yield read
        # A number with leading zeros may be anything, unless it is written or named as a phone number.
        elif read is not None and read.valid:
            grouped = any(mark in " ./-" for mark in text[read.start : read.end])
            if grouped or is_named_by(_WORD, text, match.start()):
                yield read


def _after_a_word(text: str, checks: Checks) -> Iterator[Candidate]:
    reached = 0
    for word in _WORD.finditer(text):
        end = word.end() + _WORD_REACH
        place = max(reached, word.end())
        while match := _NATIONAL.search(text, place, end + _MAX_DIGITS * 3):
            if match.start() > end:
                break
            place = match.end()
            for region in REGIONS:
                read = _longest(text, match.start(), match.end(), region, checks)
                if read is not None and read.valid:
                    yield Candidate(INTERNATIONAL, read.start, read.end, "medium")
                    place = read.end
                    break
        reached = place


def _longest(text: str, start: int, end: int, region: str | None, checks: Checks) -> _Read | None:
    """The longest valid number from `start` that ends with a group of digits, else the longest possible one."""
    possible: _Read | None = None
    if text[start] == "(" and ")" not in text[start:end]:
        start += 1
    for place in reversed([one.end() for one in _GROUP_END.finditer(text, start, end)]):
        read = _read(text, start, place, region, checks)
        if read is None:
            continue
        if read.valid:
            return read
        possible = possible or read
    return possible


def _read(text: str, start: int, end: int, region: str | None, checks: Checks) -> _Read | None:
    checks.spend()
    written = text[start:end]
    if written.startswith(("00", "(00")):
        written = written.replace("00", "+", 1)
    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return None
    country = number.country_code or 0
    if region is not None:
        valid = phonenumbers.is_valid_number(number) and country == phonenumbers.country_code_for_region(region)
        return _Read(start, end, country, valid)
    if phonenumbers.is_valid_number(number):
        return _Read(start, end, country, valid=True)
    plausible = len(digits(written)) in range(8, 16) and phonenumbers.is_possible_number(number)
    return _Read(start, end, country, False) if plausible and not _SIGNED_DECIMAL.fullmatch(written) else None


def _is_valid(written: str, region: str, checks: Checks) -> bool:
    checks.spend()
    try:
        number = phonenumbers.parse(written, region)
    except phonenumbers.NumberParseException:
        return False
    return number.country_code == phonenumbers.country_code_for_region(region) and phonenumbers.is_valid_number(number)
