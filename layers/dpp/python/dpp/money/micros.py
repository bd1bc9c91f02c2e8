"""US dollars as integer micros (RUN-23, DEC-4211): 1 USD = 1 000 000 micros, and never a float.

Amounts are decimal strings with at most four places at the API, and `int` inside.
"""

import re

MICROS_PER_USD = 1_000_000
MICROS_PER_STEP = 100
"""The value of the fourth decimal place; every price is a multiple of it, so four places are exact."""

MAX_AMOUNT_USD_MICROS = 2**53 - 1
"""The largest amount or balance (about 9 billion USD): a Lua number is a double, exact only up to here (D2)."""

_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,9})(?:\.([0-9]{1,4}))?", re.ASCII)


class AmountError(ValueError):
    """The amount is not a plain decimal string of US dollars with at most four places."""


def parse_usd(amount: str) -> int:
    """Micros of an exact decimal string: `"0.25"` is 250 000.

    Accepts ASCII digits only, without leading zeros, with at most four places: no sign, exponent, blank, digit group,
    digit of another script or name of a number (RUN-3). Raises AmountError, also above 2^53 - 1 micros.
    """
    match = _DECIMAL.fullmatch(amount)
    if match is None:
        raise AmountError('must be a decimal string such as "0.2500", with at most 4 places')
    whole, places = match.group(1), match.group(2) or ""
    micros = int(whole) * MICROS_PER_USD + int(places.ljust(6, "0"))
    if micros > MAX_AMOUNT_USD_MICROS:
        raise AmountError("is larger than the platform can hold")
    return micros


def positive_usd(amount: str) -> str:
    """The amount itself, which `parse_usd` accepts and which is not zero. Raises ValueError."""
    if parse_usd(amount) == 0:
        raise ValueError("must be above zero")
    return amount


def format_usd(micros: int) -> str:
    """Four places for display (RUN-10): `250000` is `"0.2500"`.

    Rounded down, also below zero: no response shows money that isn't there, and no debt is shown as zero.
    """
    steps = micros // MICROS_PER_STEP
    whole, places = divmod(abs(steps), MICROS_PER_USD // MICROS_PER_STEP)
    return f"{'-' if steps < 0 else ''}{whole}.{places:04d}"
