"""Personal data of any country in folded text (RUN-28)."""

import re
from collections.abc import Iterator
from functools import lru_cache

from stdnum import iban, numdb
from stdnum.exceptions import InvalidComponent, ValidationError

from dpp.packs.compliance import cards, checksums, identifiers, mail, phones
from dpp.packs.compliance.checks import Checks, is_named_by
from dpp.packs.compliance.findings import Candidate

IBAN = "iban"
PASSPORT = "passport"
PASSPORT_ZONE = "passport_machine_readable_zone"

_IBAN_START = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[ .-]?[0-9]{2}")
_IBAN_CHARACTERS = {"n": "[0-9]", "a": "[A-Z]", "c": "[A-Za-z0-9]"}
_PASSPORT = re.compile(r"(?<![A-Za-z0-9-])(?:[A-Z]{1,2}[0-9]{6,8}|[0-9]{7,9})(?![A-Za-z0-9-])")
_PASSPORT_WORD = re.compile(r"여권|passport", re.IGNORECASE)
_PASSPORT_ZONE = re.compile(
    r"(?<![A-Z0-9<])[A-Z0-9<]{9}[0-9][A-Z<]{3}[0-9]{7}[MFX<][0-9]{7}[A-Z0-9<]{14}[0-9<][0-9](?![A-Z0-9<])"
)


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Every candidate, in no particular order; they may overlap. Raises TooManyChecksError."""
    yield from cards.find(text, checks)
    yield from _ibans(text, checks)
    yield from mail.find(text, checks)
    yield from phones.find(text, checks)
    yield from _passports(text)
    yield from identifiers.find(text, checks)


def _ibans(text: str, checks: Checks) -> Iterator[Candidate]:
    for start in _IBAN_START.finditer(text):
        rest = _iban_rest(start[1])
        found = rest.match(text, start.end()) if rest else None
        if found is not None:
            checks.spend()
            if _is_iban(start[0] + found[0]):
                yield Candidate(IBAN, start.start(), found.end(), "high")


def _is_iban(number: str) -> bool:
    try:
        iban.validate(number)
    except InvalidComponent:
        return iban.is_valid(number, check_country=False)  # a bank that the library doesn't know
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=4 * 26 * 26)
def _iban_rest(country: str) -> re.Pattern[str] | None:
    """The form of all that follows country and check digits; None if no IBAN has this country.

    The registry's "a" are capitals, "c" letters of both cases and digits. A country in small letters says that the
    whole number is written so.
    """
    (_, properties), *_ = numdb.get("iban").info(country.upper())
    parts = re.findall(r"([0-9]+)!([nac])", properties.get("bban", ""))
    if not parts or not (country.isupper() or country.islower()):
        return None
    form = "".join(rf"(?:[ .-]?{_IBAN_CHARACTERS[kind]}){{{count}}}" for count, kind in parts)
    return re.compile(rf"{form}(?![A-Za-z0-9])", re.NOFLAG if country.isupper() else re.IGNORECASE)


def _passports(text: str) -> Iterator[Candidate]:
    for match in _PASSPORT_ZONE.finditer(text):
        if checksums.travel_document_checks(match[0]):
            yield Candidate(PASSPORT_ZONE, match.start(), match.end(), "high")
    for match in _PASSPORT.finditer(text):
        if is_named_by(_PASSPORT_WORD, text, match.start()):
            yield Candidate(PASSPORT, match.start(), match.end(), "medium")
