"""Personal data of any country in folded text (RUN-28)."""

import re
from collections.abc import Iterator

from dpp.packs.compliance import checksums
from dpp.packs.compliance.findings import Candidate
from dpp.packs.compliance.korean import digits, is_named_by

CARD = "payment_card"
IBAN = "iban"
EMAIL = "email"
PHONE = "international_phone"
PASSPORT = "passport"
PASSPORT_ZONE = "passport_machine_readable_zone"

_CARD = re.compile(
    r"""(?<![0-9])(?<![0-9]-)(?:[0-9]{13,19}
      |[0-9]{4}(?P<four>[ .-])[0-9]{4}(?P=four)[0-9]{4}(?P=four)[0-9]{1,4}(?:(?P=four)[0-9]{1,3})?
      |[0-9]{4}(?P<six>[ .-])[0-9]{6}(?P=six)[0-9]{4,5})(?![0-9])(?!-[0-9])""",
    re.VERBOSE,
)
_IBAN_START = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}")
_IBAN_REST = {
    length: re.compile(rf"(?:[ -]?[A-Za-z0-9]){{{length - 4}}}(?![A-Za-z0-9])")
    for length in set(checksums.IBAN_LENGTHS.values())
}
_LOCAL = "A-Za-z0-9._%+-"
_EMAIL = re.compile(
    rf"(?<![{_LOCAL}])(?P<stray>[._%+-]*)[{_LOCAL}]{{1,64}}@(?:[A-Za-z0-9가-힣-]{{1,63}}\.)+(?:[A-Za-z]{{2,24}}|한국)"
    r"(?![A-Za-z0-9])"
)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z+])\+[1-9][0-9]{0,14}(?:[ .-]?\([0-9]{1,4}\)[ .-]?[0-9]{2,12})?(?:[ .-][0-9]{2,12}){0,5}(?![0-9])"
)
_PHONE_DIGITS = range(8, 16)
_PASSPORT = re.compile(r"(?<![A-Za-z0-9-])(?:[A-Z]{1,2}[0-9]{6,8}|[0-9]{7,9})(?![A-Za-z0-9-])")
_PASSPORT_WORD = re.compile(r"여권|passport", re.IGNORECASE)
_PASSPORT_ZONE = re.compile(
    r"(?<![A-Z0-9<])[A-Z0-9<]{9}[0-9][A-Z<]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{14}[0-9<][0-9](?![A-Z0-9<])"
)


def find(text: str) -> Iterator[Candidate]:
    """Every candidate, in no particular order; they may overlap."""
    yield from _cards(text)
    yield from _ibans(text)
    yield from _emails(text)
    yield from _phones(text)
    yield from _passports(text)


def _cards(text: str) -> Iterator[Candidate]:
    for match in _CARD.finditer(text):
        number = digits(match[0])
        if not checksums.luhn_checks(number):
            continue
        if checksums.is_international_card(number):
            yield Candidate(CARD, match.start(), match.end(), "high")
        elif checksums.is_korean_card(number):
            yield Candidate(CARD, match.start(), match.end(), "medium")


def _ibans(text: str) -> Iterator[Candidate]:
    for match in _IBAN_START.finditer(text):
        length = checksums.IBAN_LENGTHS.get(match[0][:2].upper())
        rest = _IBAN_REST[length].match(text, match.end()) if length else None
        if rest and checksums.iban_checks((match[0] + rest[0]).replace(" ", "").replace("-", "").upper()):
            yield Candidate(IBAN, match.start(), rest.end(), "high")


def _emails(text: str) -> Iterator[Candidate]:
    for match in _EMAIL.finditer(text):
        yield Candidate(EMAIL, match.end("stray"), match.end(), "medium")


def _phones(text: str) -> Iterator[Candidate]:
    for match in _PHONE.finditer(text):
        number = match[0]
        # What follows after a blank may be another number.
        while len(digits(number)) > _PHONE_DIGITS[-1] and (shorter := re.sub(r"[ .-][0-9]+$", "", number)) != number:
            number = shorter
        if len(digits(number)) in _PHONE_DIGITS:
            yield Candidate(PHONE, match.start(), match.start() + len(number), "medium")


def _passports(text: str) -> Iterator[Candidate]:
    for match in _PASSPORT_ZONE.finditer(text):
        if checksums.travel_document_checks(match[0]):
            yield Candidate(PASSPORT_ZONE, match.start(), match.end(), "high")
    for match in _PASSPORT.finditer(text):
        if is_named_by(_PASSPORT_WORD, text, match.start()):
            yield Candidate(PASSPORT, match.start(), match.end(), "medium")
