"""US dollars as the API takes and gives them: exact decimal strings, and never a float (RUN-3, RUN-23)."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator

MAX_USD = Decimal("9007199254.7409")
"""The largest amount that the platform can hold: 2^53 - 1 micros, to four places."""

_PLACES = 4
_ASKED = re.compile(r"(?:0|[1-9][0-9]{0,9})(?:\.[0-9]{1,4})?", re.ASCII)
_ANSWERED = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,6})?", re.ASCII)


def usd_text(amount: Decimal | str) -> str:
    """An amount above zero, as the API takes it, unchanged in its value.

    Raises TypeError for everything but Decimal and str, a float first of all: it has no exact cents. Raises ValueError
    beyond four places, at zero and below, beyond MAX_USD, and for text that is no plain decimal number.
    """
    if isinstance(amount, Decimal):
        text = _plain(amount)
    elif isinstance(amount, str):
        text = amount
    else:
        raise TypeError(f"an amount of money is a Decimal or a str, not a {type(amount).__name__}")
    if not _ASKED.fullmatch(text):
        raise ValueError('an amount is a plain decimal number such as "0.2500", with at most 4 places')
    if not 0 < Decimal(text) <= MAX_USD:
        raise ValueError(f"an amount is above 0 and at most {MAX_USD} US dollars")
    return text


def _plain(amount: Decimal) -> str:
    """Its digits without an exponent. Zeros beyond the fourth place are no places: arithmetic leaves them behind."""
    if not amount.is_finite():
        raise ValueError("an amount is a finite number")
    if not 0 < amount <= MAX_USD:  # before its digits are written out: 1E+1000000 has a million
        raise ValueError(f"an amount is above 0 and at most {MAX_USD} US dollars")
    _, digits, exponent = amount.as_tuple()
    kept = list(digits)
    places = -int(exponent)
    while places > _PLACES and kept and kept[-1] == 0:
        kept.pop()
        places -= 1
    if places > _PLACES:
        raise ValueError("an amount has at most 4 places, and is not rounded")
    return format(Decimal((0, tuple(kept), -places)), "f")


def _exact(value: object) -> object:
    if isinstance(value, str) and _ANSWERED.fullmatch(value):
        return Decimal(value)
    if isinstance(value, Decimal):
        return value
    raise ValueError("an amount of money is a decimal string")


Usd = Annotated[Decimal, BeforeValidator(_exact)]
"""An amount in an answer. Its string becomes a Decimal digit by digit; a JSON number is refused."""
