"""Check digits of identifiers; each takes digits (or letters) without separators (RUN-28)."""

import re
from datetime import date

_CENTURIES = {
    "9": 1800, "0": 1800,
    "1": 1900, "2": 1900, "5": 1900, "6": 1900,
    "3": 2000, "4": 2000, "7": 2000, "8": 2000,
}  # fmt: skip
_RESIDENT_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_BUSINESS_WEIGHTS = (1, 3, 7, 1, 3, 7, 1, 3, 5)
_TRAVEL_WEIGHTS = (7, 3, 1)


def resident_birth(number: str) -> date | None:
    """The date of birth in a resident registration number of 13 digits; None if there is no such day."""
    try:
        return date(_CENTURIES[number[6]] + int(number[:2]), int(number[2:4]), int(number[4:6]))
    except ValueError:
        return None


def is_foreigner(number: str) -> bool:
    """Return whether a resident registration number is one of a foreigner (seventh digit 5 to 8)."""
    return number[6] in "5678"


def resident_number_checks(number: str) -> bool:
    """The check digit of resident registration numbers as issued until October 2020; since then it is random."""
    total = sum(int(digit) * weight for digit, weight in zip(number, _RESIDENT_WEIGHTS, strict=False))
    return int(number[12]) == ((13 if is_foreigner(number) else 11) - total % 11) % 10


def business_number_checks(number: str) -> bool:
    """The check digit of a Korean business registration number (10 digits), and a tax office that can be."""
    total = sum(int(digit) * weight for digit, weight in zip(number, _BUSINESS_WEIGHTS, strict=False))
    total += int(number[8]) * 5 // 10
    plausible = int(number[:3]) >= 101 and number[3:5] != "00"
    return plausible and int(number[9]) == -total % 10


def luhn_checks(number: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    doubled = (int(digit) * 2 for digit in number[-2::-2])
    return (sum(map(int, number[-1::-2])) + sum(value - 9 * (value > 9) for value in doubled)) % 10 == 0


def iban_checks(iban: str) -> bool:
    """ISO 13616: country and check digits go to the end, A is 10, and the whole is 1 modulo 97."""
    return int("".join(str(int(character, 36)) for character in iban[4:] + iban[:4])) % 97 == 1


def travel_document_checks(line: str) -> bool:
    """The second line of a passport's machine-readable zone (ICAO 9303-4): each check digit, and the whole's."""
    parts = ((line[:9], line[9]), (line[13:19], line[19]), (line[21:27], line[27]), (line[28:42], line[42]))
    whole = (line[:10] + line[13:20] + line[21:43], line[43])
    return all(_travel_digit(value) == int(check.replace("<", "0")) for value, check in (*parts, whole))


def _travel_digit(value: str) -> int:
    values = (0 if character == "<" else int(character, 36) for character in value)
    return sum(number * _TRAVEL_WEIGHTS[place % 3] for place, number in enumerate(values)) % 10


IBAN_LENGTHS = {
    code[:2]: int(code[2:])
    for code in re.findall(
        r"\w+",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20"
        " EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30"
        " KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23"
        " PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26"
        " UA29 VA22 VG24 XK20 YE30",
    )
}
"""Characters of an IBAN by country (SWIFT's registry)."""

_CARD_RANGES = (
    # first digits from, to, lengths
    ("34", "34", (15,)),  # American Express
    ("37", "37", (15,)),
    ("300", "305", (14, 16, 17, 18, 19)),  # Diners Club
    ("3095", "3095", (14, 16, 17, 18, 19)),
    ("36", "36", (14, 16, 17, 18, 19)),
    ("38", "39", (14, 16, 17, 18, 19)),
    ("3528", "3589", (16, 17, 18, 19)),  # JCB
    ("4", "4", (13, 16, 19)),  # Visa
    ("51", "55", (16,)),  # Mastercard
    ("2221", "2720", (16,)),
    ("6011", "6011", (16, 17, 18, 19)),  # Discover
    ("644", "659", (16, 17, 18, 19)),
    ("62", "62", (16, 17, 18, 19)),  # UnionPay
)


def is_international_card(number: str) -> bool:
    """Return whether a card scheme issues numbers that start so and have this length."""
    return any(low <= number[: len(low)] <= high and len(number) in lengths for low, high, lengths in _CARD_RANGES)


def is_korean_card(number: str) -> bool:
    """Domestic Korean cards start with 9, which ISO/IEC 7812 leaves to each country."""
    return number[0] == "9" and len(number) == 16
