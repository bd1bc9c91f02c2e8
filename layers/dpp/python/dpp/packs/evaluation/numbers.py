"""Numbers as exact decimals: read from JSON or from text, and compared within a tolerance (RUN-28)."""

import decimal
import re
import unicodedata
from decimal import Decimal

from dpp.packs.folding import without_invisible

_MAX_CHARACTERS = 64
_MAX_EXPONENT = 324  # the smallest double is 5e-324
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?0*(?P<exponent>[0-9]{1,3}))?",
    re.IGNORECASE,
)
# Of two numbers within the bounds above, differences and products have fewer digits than this, so nothing is
# ever rounded; the trap would tell.
_EXACT = decimal.Context(
    prec=1_000, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow, decimal.DivisionByZero]
)


class NotANumberError(ValueError):
    """The value is no number that can be compared exactly: NaN, infinities and exponents beyond ±324 included."""


def from_text(text: str) -> Decimal:
    """The number that `text` is as a whole: `-1,234.5`, `１２`, `6e-3`. Raises NotANumberError."""
    if len(text) > _MAX_CHARACTERS:
        raise NotANumberError
    plain = unicodedata.normalize("NFKC", without_invisible(text)).replace("\u2212", "-").strip()
    match = _NUMBER.fullmatch(plain)
    if match is None or int(match["exponent"] or 0) > _MAX_EXPONENT:
        raise NotANumberError
    return Decimal(plain.replace(",", ""))


def from_json(value: float) -> Decimal:
    """The decimal that a JSON number was written as, as far as a double holds it. Raises NotANumberError."""
    written = repr(value)
    if len(written) > _MAX_CHARACTERS or not (number := Decimal(written)).is_finite():
        raise NotANumberError
    return number


def within(value: Decimal, reference: Decimal, *, absolute: Decimal, relative: Decimal) -> bool:
    """Return whether `value` is as close to `reference` as the larger of the two tolerances allows."""
    distance = _EXACT.abs(_EXACT.subtract(value, reference))
    return distance <= max(absolute, _EXACT.multiply(relative, _EXACT.abs(reference)))
