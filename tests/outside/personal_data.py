"""The compliance pack against public recognizers' cases: presidio, libphonenumber and python-stdnum (RUN-28)."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path

import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from dpp.packs.compliance import cards, identifiers, international, korean, mail, phones
from dpp.packs.compliance.personal_data import Search
from dpp.packs.folding import fold
from dpp.packs.inputs.compliance import RuleSet
from tests.outside.data import stdnum_tests
from tests.outside.lookalikes import LOOKALIKES
from tests.outside.suite import Case, Suite

_BOTH: tuple[RuleSet, ...] = ("personal_data_kr", "personal_data_international")
_PHONES = frozenset({phones.KOREAN, phones.INTERNATIONAL})
_KOREAN_IDS: Mapping[str, Collection[str]] = {
    "kr_brn": {korean.BUSINESS},
    "kr_driver_license": {korean.DRIVER},
    "kr_frn": {korean.FOREIGNER},
    "kr_passport": {korean.PASSPORT, international.PASSPORT},
    "kr_rrn": {korean.RESIDENT},
}
_NAMED = (
    ("us.ssn", "SSN", identifiers.US_SSN),
    ("us.itin", "ITIN", identifiers.US_ITIN),
    ("ca.sin", "SIN", identifiers.CA_SIN),
    ("gb.nhs", "NHS number", identifiers.GB_NHS),
    ("ie.pps", "PPS number", identifiers.IE_PPS),
    ("au.tfn", "TFN", identifiers.AU_TFN),
    ("nz.ird", "IRD number", identifiers.NZ_IRD),
    ("in_.aadhaar", "Aadhaar", identifiers.IN_AADHAAR),
    ("in_.pan", "PAN", identifiers.IN_PAN),
    ("za.idnr", "South African ID", identifiers.ZA_ID),
)
_CALL = r">>> (?:{}\.)?validate\('([^']+)'(, [a-z_]+=\w+)?\)[^\n]*\n(\S*)"
_BLOCK = re.compile(r">>> numbers = '''\n(?P<numbers>.*?)\n\.\.\. '''\n>>> \[(?P<test>[^\n]*)\]", re.DOTALL)


def _found(text: str, rules: Collection[str] | None = None) -> list[tuple[int, int]]:
    findings = Search(_BOTH).find(0, text, fold(text))
    spans = [(one.start, one.end) for one in findings if rules is None or one.rule in rules]
    return sorted((start, end) for start, end in spans if start is not None and end is not None)


def _presidio(kinds: Mapping[str, Collection[str]], data: Path) -> Iterator[Case]:
    """Every span is found, whole, and nothing else of the kind.

    A text that stands there with several answers, for several settings of presidio, is right with any of them.
    """
    cases = json.loads((data / "presidio-cases.json").read_text())
    for kind, rules in kinds.items():
        answers: dict[str, list[list[tuple[int, int]]]] = {}
        for case in cases[kind]:
            answers.setdefault(case["text"], []).append(sorted((start, end) for start, end in case["spans"]))
        for text, expected in answers.items():
            found = _found(text, rules)
            yield Case(f"{kind} {text}", found in expected, _shown(text, found))


def _international_examples(_: Path) -> Iterator[Case]:
    """libphonenumber's own examples, as it writes them for callers from abroad: one number, found whole."""
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        for kind in (PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE):
            number = phonenumbers.example_number_for_type(region, kind)
            if number is not None:
                text = phonenumbers.format_number(number, PhoneNumberFormat.INTERNATIONAL)
                name = f"{region} {'mobile' if kind == PhoneNumberType.MOBILE else 'fixed line'}"
                yield _whole(name, text, _PHONES)


def _stdnum(module: str, rules: Collection[str], _: Path) -> Iterator[Case]:
    """Valid numbers are found whole. The others are not found, whichever rule might take them for its own."""
    for number, valid in _doctest_numbers(module):
        if valid:
            yield _whole(number, number, rules)
        else:
            found = _found(number, rules)
            yield Case(number, not found, _shown(number, found))


def _named(_: Path) -> Iterator[Case]:
    """Identifiers that need a word before them: behind it, valid ones are found whole and others are not."""
    for module, word, rule in _NAMED:
        for number, valid in _doctest_numbers(module):
            text = f"{word}: {number}"
            found = [text[start:end] for start, end in _found(text, {rule})]
            expected = [number] if valid else []
            yield Case(text, found == expected, ", ".join(found) or "nothing")


def _doctest_numbers(module: str) -> Iterator[tuple[str, bool]]:
    """The numbers of a module's doctests, each once, and whether they are valid there."""
    name = module.rpartition(".")[2]
    doctest = stdnum_tests() / f"test_{module.replace('.', '_')}.doctest"
    text = (import_module(f"stdnum.{module}").__doc__ or "") + (doctest.read_text() if doctest.exists() else "")
    seen: dict[str, bool] = {}
    for number, setting, answer in re.findall(_CALL.format(name), text):
        if not setting:
            seen.setdefault(number.strip(), not answer.startswith("Traceback"))
    for block in _BLOCK.finditer(text):
        listed = [line.removeprefix("...").strip() for line in block["numbers"].splitlines()]
        # None of them is "not valid", or none of them is valid. With a setting, the list is about another one.
        if "check_country" not in block["test"]:
            seen |= {number: "not" in block["test"] for number in listed if number and number not in seen}
    yield from seen.items()


def _lookalikes(_: Path) -> Iterator[Case]:
    for text in LOOKALIKES:
        found = _found(text)
        yield Case(text, not found, _shown(text, found))


def _whole(name: str, text: str, rules: Collection[str]) -> Case:
    found = _found(text, rules)
    return Case(name, found == [(0, len(text))], f"{text}: {_shown(text, found)}")


def _shown(text: str, found: Iterable[tuple[int, int]]) -> str:
    return ", ".join(text[start:end] for start, end in found) or "nothing"


_CHECK_DIGIT = "its check digit is wrong by the rule of the National Tax Service, which python-stdnum doesn't check"
_NO_WORD = "ten digits without a word: one in eleven order numbers and timestamps has such a check digit"

SUITES = (
    Suite("presidio-cards", 17, partial(_presidio, {"credit_card": {cards.CARD}})),
    Suite("presidio-email", 8, partial(_presidio, {"email": {mail.EMAIL}})),
    Suite("presidio-phones", 19, partial(_presidio, {"phone": _PHONES})),
    Suite(
        "presidio-korean-ids",
        83,
        partial(_presidio, _KOREAN_IDS),
        otherwise={
            "kr_brn 1048656659": _NO_WORD,
            "kr_driver_license 112212345612": "twelve digits without a word: one in six numbers begins so",
        },
    ),
    Suite("presidio-iban", 326, partial(_presidio, {"iban": {international.IBAN}})),
    Suite("libphonenumber-examples", 485, _international_examples),
    Suite("stdnum-iban", 215, partial(_stdnum, "iban", {international.IBAN})),
    Suite("stdnum-kr-rrn", 32, partial(_stdnum, "kr.rrn", {korean.RESIDENT, korean.FOREIGNER})),
    Suite(
        "stdnum-kr-brn",
        237,
        partial(_stdnum, "kr.brn", {korean.BUSINESS}),
        otherwise={
            "1168200276": _NO_WORD,
            "2098206382": _NO_WORD,
            "1208200052": _NO_WORD,
            "206-18-12345": _CHECK_DIGIT,
            "306-82-00417": _CHECK_DIGIT,
            "728-86-00316": _CHECK_DIGIT,
        },
    ),
    Suite("stdnum-named", 90, _named),
    Suite("lookalikes", len(LOOKALIKES), _lookalikes),
)
