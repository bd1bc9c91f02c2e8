"""Payment cards by the ranges of first digits that their schemes issue, and the Luhn check (ISO/IEC 7812-1)."""

import re
from collections.abc import Iterator

from stdnum import ean, luhn

from dpp.packs.compliance.checks import Checks, digits, is_named_by
from dpp.packs.compliance.findings import Candidate, Confidence

CARD = "payment_card"

_CARD = re.compile(
    r"""(?<![0-9])(?<![0-9]-)(?:[0-9]{12,19}
      |[0-9]{4}(?P<four>[ .-])[0-9]{4}(?P=four)[0-9]{4}(?:(?P=four)[0-9]{1,4})?(?:(?P=four)[0-9]{1,3})?
      |[0-9]{4}(?P<six>[ .-])[0-9]{6}(?P=six)[0-9]{4,5})(?![0-9])(?![.-][0-9])""",
    re.VERBOSE,
)
_WORD = re.compile(
    r"\bcard|\bkarte|credit|debit|\bpan\b|visa|master|maestro|amex|american express|diners|discover|\bjcb\b|unionpay"
    r"|\bmir\b|rupay|troy|카드|신용",
    re.IGNORECASE,
)
_TO_19 = (16, 17, 18, 19)
_RANGES: tuple[tuple[str, str, tuple[int, ...], Confidence | None], ...] = (
    # First digits from, to; lengths; confidence if no word says that it is a card, None if a word has to.
    ("34", "34", (15,), "high"),  # American Express
    ("37", "37", (15,), "high"),
    ("300", "305", (14, *_TO_19), "high"),  # Diners Club
    ("3095", "3095", (14, *_TO_19), "high"),
    ("36", "36", (14, *_TO_19), "high"),
    ("38", "39", (14, *_TO_19), "high"),
    ("3528", "3589", _TO_19, "high"),  # JCB
    ("4", "4", (16, 19), "high"),  # Visa
    ("4", "4", (13,), "low"),  # Visa's old length, which is also that of a bar code
    ("51", "55", (16,), "high"),  # Mastercard
    ("2221", "2720", (16,), "high"),
    ("6011", "6011", _TO_19, "high"),  # Discover
    ("644", "659", _TO_19, "high"),  # Discover, RuPay, Troy, Verve
    ("62", "62", _TO_19, "high"),  # UnionPay
    ("2200", "2204", _TO_19, "high"),  # Mir
    ("2205", "2205", (16,), "medium"),  # Borica
    ("9792", "9792", (16,), "high"),  # Troy
    ("508", "508", (16,), "high"),  # RuPay
    ("81", "82", (16,), "medium"),
    ("506099", "506198", (16, 18, 19), "high"),  # Verve
    ("507865", "507964", (16, 18, 19), "high"),
    ("8600", "8600", (16,), "medium"),  # Uzcard
    ("9860", "9860", (16,), "medium"),  # Humo
    ("50", "50", _TO_19, "medium"),  # Maestro, Dankort, and what else shares its ranges: RuPay, Elo, Hipercard
    ("56", "69", _TO_19, "medium"),
    ("1", "1", (15,), "low"),  # UATP
    ("50", "50", (12, 13, 14, 15), None),  # Maestro's short numbers
    ("56", "69", (12, 13, 14, 15), None),
    ("9", "9", (16,), "medium"),  # Korean domestic cards; ISO/IEC 7812 leaves the 9 to each country
)


def confidence(number: str, *, named: bool) -> Confidence | None:
    """Return the confidence that the digits are a card's, None if they aren't; `named` if a word says that they are."""
    for low, high, lengths, alone in _RANGES:
        if low <= number[: len(low)] <= high and len(number) in lengths:
            if not luhn.is_valid(number):
                return None
            if named:
                return "high"
            return None if alone == "low" and ean.is_valid(number) else alone
    return None


def find(text: str, checks: Checks) -> Iterator[Candidate]:
    """Every number that a scheme may have issued and whose check digit is right."""
    for match in _CARD.finditer(text):
        checks.spend()
        sure = confidence(digits(match[0]), named=is_named_by(_WORD, text, match.start()))
        if sure is not None:
            yield Candidate(CARD, match.start(), match.end(), sure)
