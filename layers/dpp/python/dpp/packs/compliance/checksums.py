"""Check digits that python-stdnum lacks; each takes digits (or letters) without separators (RUN-28)."""

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


def travel_document_checks(line: str) -> bool:
    """The second line of a passport's machine-readable zone (ICAO 9303-4): each check digit, and the whole's."""
    parts = ((line[:9], line[9]), (line[13:19], line[19]), (line[21:27], line[27]), (line[28:42], line[42]))
    whole = (line[:10] + line[13:20] + line[21:43], line[43])
    return all(_travel_digit(value) == int(check.replace("<", "0")) for value, check in (*parts, whole))


def _travel_digit(value: str) -> int:
    values = (0 if character == "<" else int(character, 36) for character in value)
    return sum(number * _TRAVEL_WEIGHTS[place % 3] for place, number in enumerate(values)) % 10
