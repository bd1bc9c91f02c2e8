"""Korean personal data in folded text (RUN-28)."""

import re
from collections.abc import Iterator
from datetime import date

from dpp.packs.compliance import checksums
from dpp.packs.compliance.findings import Candidate, Confidence

RESIDENT = "kr_resident_registration_number"
FOREIGNER = "kr_foreigner_registration_number"
BUSINESS = "kr_business_registration_number"
PHONE = "kr_phone"
PASSPORT = "kr_passport"
ACCOUNT = "kr_bank_account"

RANDOM_SINCE = date(2020, 10, 5)
"""Numbers issued from this day on carry random digits where the check digit was."""

_KEYWORD_REACH = 40
"""The word that identifies a number is searched in this many characters before it."""

_START = r"(?<![0-9])(?<![0-9]-)"
_END = r"(?![0-9])(?!-[0-9])"
_RESIDENT = re.compile(rf"{_START}(?P<birth>[0-9]{{6}})(?P<separator> ?- ?| )?(?P<rest>[0-9]{{7}}){_END}")
_BUSINESS = re.compile(rf"{_START}(?:[0-9]{{3}}(?P<separator>-)[0-9]{{2}}-[0-9]{{5}}|[0-9]{{10}}){_END}")
_BUSINESS_WORD = re.compile(r"사업자|등록번호|business|\bBRN\b", re.IGNORECASE)
_PHONE = re.compile(
    rf"""{_START}(?:(?P<country>\+?82[ .-]?(?:\(0\)|0)?)|(?P<open>\()?0)
      (?P<area>1[016-9]|2|3[1-3]|4[1-4]|5[1-5]|6[1-4]|70|80|50[2-8])
      (?(open)\)[ ]?|(?P<separator>[ .-])?)[0-9]{{3,4}}[ .-]?[0-9]{{4}}{_END}""",
    re.VERBOSE,
)
_PASSPORT = re.compile(r"(?<![A-Za-z0-9])[MSRODmsrod](?:[0-9]{8}|[0-9]{3}[A-Za-z][0-9]{4})(?![A-Za-z0-9])")
_PASSPORT_WORD = re.compile(r"여권|passport", re.IGNORECASE)
_ACCOUNT = re.compile(rf"{_START}(?:[0-9]{{2,6}}(?:-[0-9]{{1,8}}){{1,3}}|[0-9]{{10,14}}){_END}")
_ACCOUNT_WORD = re.compile(r"계좌|입금|송금|이체|은행|뱅크|농협|수협|신협|새마을금고|우체국|\baccount\b", re.IGNORECASE)


def digits(text: str) -> str:
    """The digits of `text`."""
    return "".join(character for character in text if character in "0123456789")


def is_named_by(word: re.Pattern[str], text: str, place: int) -> bool:
    """Return whether the word stands shortly before `place`."""
    return word.search(text, max(0, place - _KEYWORD_REACH), place) is not None


def find(text: str) -> Iterator[Candidate]:
    """Every candidate, in no particular order; they may overlap."""
    yield from _resident_numbers(text)
    yield from _business_numbers(text)
    yield from _phones(text)
    yield from _passports(text)
    yield from _accounts(text)


def _resident_numbers(text: str) -> Iterator[Candidate]:
    for match in _RESIDENT.finditer(text):
        number = match["birth"] + match["rest"]
        birth = checksums.resident_birth(number)
        if birth is None:
            continue
        confidence: Confidence = "high" if checksums.resident_number_checks(number) else "low"
        # Without check digit and separator, one in thirty numbers of 13 digits would do.
        if confidence == "high" or match["separator"] or birth >= RANDOM_SINCE:
            rule = FOREIGNER if checksums.is_foreigner(number) else RESIDENT
            yield Candidate(rule, match.start(), match.end(), confidence)


def _business_numbers(text: str) -> Iterator[Candidate]:
    for match in _BUSINESS.finditer(text):
        if not checksums.business_number_checks(digits(match[0])):
            continue
        if match["separator"]:
            yield Candidate(BUSINESS, match.start(), match.end(), "high")
        elif is_named_by(_BUSINESS_WORD, text, match.start()):
            yield Candidate(BUSINESS, match.start(), match.end(), "medium")


def _phones(text: str) -> Iterator[Candidate]:
    for match in _PHONE.finditer(text):
        mobile = match["area"].startswith("1")
        named = match["country"] or match["open"] or match["separator"] or mobile
        yield Candidate(PHONE, match.start(), match.end(), "medium" if named else "low")


def _passports(text: str) -> Iterator[Candidate]:
    for match in _PASSPORT.finditer(text):
        if is_named_by(_PASSPORT_WORD, text, match.start()):
            yield Candidate(PASSPORT, match.start(), match.end(), "medium")
        elif match[0].isupper():
            yield Candidate(PASSPORT, match.start(), match.end(), "low")


def _accounts(text: str) -> Iterator[Candidate]:
    for match in _ACCOUNT.finditer(text):
        if 10 <= len(digits(match[0])) <= 14 and is_named_by(_ACCOUNT_WORD, text, match.start()):
            yield Candidate(ACCOUNT, match.start(), match.end(), "medium")
