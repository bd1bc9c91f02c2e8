"""Korean personal data in folded text (RUN-28)."""

import re
from collections.abc import Iterator
from datetime import date

from stdnum import ean

from dpp.packs.compliance import checksums, phones
from dpp.packs.compliance.checks import Checks, digits, is_named_by
from dpp.packs.compliance.findings import Candidate, Confidence

RESIDENT = "kr_resident_registration_number"
FOREIGNER = "kr_foreigner_registration_number"
BUSINESS = "kr_business_registration_number"
PASSPORT = "kr_passport"
DRIVER = "kr_driver_license"
ACCOUNT = "kr_bank_account"

RANDOM_SINCE = date(2020, 10, 5)
"""Numbers issued from this day on carry random digits where place of registration and check digit were."""
_LAST_PLACE = 96
_BORN_SINCE = date(1850, 1, 1)
"""The first numbers were issued in 1962."""
_REISSUED_TO_BORN_SINCE = date(1900, 1, 1)
"""Nobody born before got a number with random digits."""

_START = r"(?<![0-9])(?<![0-9]-)"
_END = r"(?![0-9])(?!-[0-9])"
_RESIDENT = re.compile(rf"{_START}(?P<birth>[0-9]{{6}})(?P<separator> ?- ?| )?(?P<rest>[0-9]{{7}}){_END}")
_BUSINESS = re.compile(
    rf"{_START}(?:[0-9]{{3}}(?P<separator> ?- ?| )[0-9]{{2}}(?P=separator)[0-9]{{5}}|[0-9]{{10}}){_END}"
)
_BUSINESS_WORD = re.compile(r"사업자|등록번호|business|\bBRN\b", re.IGNORECASE)
_PASSPORT = re.compile(r"(?<![A-Za-z0-9])[MSRODmsrod](?:[0-9]{8}|[0-9]{3}[A-Za-z][0-9]{4})(?![A-Za-z0-9])")
_PASSPORT_WORD = re.compile(r"여권|passport", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
# 11 to 28 stand for the police office that issued it.
_DRIVER = re.compile(rf"{_START}(?:1[1-9]|2[0-8])(?P<mark>[ -]?)[0-9]{{2}}(?P=mark)[0-9]{{6}}(?P=mark)[0-9]{{2}}{_END}")
_DRIVER_WORD = re.compile(r"면허|licen[cs]e|driver", re.IGNORECASE)
_ACCOUNT = re.compile(rf"{_START}(?:[0-9]{{2,6}}(?:-[0-9]{{1,8}}){{1,3}}|[0-9]{{10,14}}){_END}")
_ACCOUNT_WORD = re.compile(r"계좌|입금|송금|이체|은행|뱅크|농협|수협|신협|새마을금고|우체국|\baccount\b", re.IGNORECASE)


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Every candidate, in no particular order; they may overlap. Raises TooManyChecksError."""
    yield from _resident_numbers(text)
    yield from _business_numbers(text)
    yield from phones.find_korean(text, checks)
    yield from _passports(text)
    yield from _driver_licenses(text)
    yield from _accounts(text)


def _resident_numbers(text: str) -> Iterator[Candidate]:
    for match in _RESIDENT.finditer(text):
        number = match["birth"] + match["rest"]
        birth = checksums.resident_birth(number)
        if birth is None or birth < _BORN_SINCE:
            continue
        of_a_place = int(number[7:9]) <= _LAST_PLACE
        confidence: Confidence = "high" if of_a_place and checksums.resident_number_checks(number) else "low"
        if confidence == "low" and birth < _REISSUED_TO_BORN_SINCE:
            continue
        # Of 13 digits without a check digit, those of a bar code are none.
        plausible = not ean.is_valid(number) and (of_a_place or birth >= RANDOM_SINCE)
        if confidence == "high" or match["separator"] or plausible:
            rule = FOREIGNER if checksums.is_foreigner(number) else RESIDENT
            yield Candidate(rule, match.start(), match.end(), confidence)


def _business_numbers(text: str) -> Iterator[Candidate]:
    for match in _BUSINESS.finditer(text):
        if not checksums.business_number_checks(digits(match[0])):
            continue
        named = is_named_by(_BUSINESS_WORD, text, match.start())
        if match["separator"] and (named or match["separator"] != " "):
            yield Candidate(BUSINESS, match.start(), match.end(), "high")
        elif match["separator"] or named:
            yield Candidate(BUSINESS, match.start(), match.end(), "medium")


def _passports(text: str) -> Iterator[Candidate]:
    for match in _PASSPORT.finditer(text):
        if is_named_by(_PASSPORT_WORD, text, match.start()):
            yield Candidate(PASSPORT, match.start(), match.end(), "medium")
        elif _DATE.fullmatch(match[0], 1) is None:
            yield Candidate(PASSPORT, match.start(), match.end(), "low")


def _driver_licenses(text: str) -> Iterator[Candidate]:
    for match in _DRIVER.finditer(text):
        if is_named_by(_DRIVER_WORD, text, match.start()):
            yield Candidate(DRIVER, match.start(), match.end(), "medium")
        elif match["mark"]:
            yield Candidate(DRIVER, match.start(), match.end(), "medium" if match["mark"] == "-" else "low")


def _accounts(text: str) -> Iterator[Candidate]:
    for match in _ACCOUNT.finditer(text):
        if 10 <= len(digits(match[0])) <= 14 and is_named_by(_ACCOUNT_WORD, text, match.start()):
            yield Candidate(ACCOUNT, match.start(), match.end(), "medium")
