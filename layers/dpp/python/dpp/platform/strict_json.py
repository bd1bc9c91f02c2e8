"""Strict parser for JSON from clients (D12): rejects values that cannot be stored or compared.

It rejects more than RFC 8259: duplicate names, nesting beyond 64, NUL and lone surrogates in strings, NaN and
infinities, integers beyond ±(2^53 - 1) and floats that overflow (I-JSON, RFC 7493).

JSON has one kind of number, so 90.0 and 9e1 are the integer 90, as in JSON Schema and RFC 8785. A number with a
fraction is a float for `parse`, and the exact decimal for `parse_exact`, which is used for amounts.
"""

import json
import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

MAX_DEPTH = 64
MAX_SAFE_INTEGER = 2**53 - 1
_MAX_INTEGER_DIGITS = 17

type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type ExactJson = bool | int | Decimal | str | list[ExactJson] | dict[str, ExactJson] | None


class JsonRefused(ValueError):
    """The text is not JSON that the platform accepts. The message says why and quotes none of it."""


def parse(text: str | bytes) -> Json:
    """Parse a JSON text (UTF-8 if bytes). Raises JsonRefused."""
    value: Json = _parsed(text, _float)
    return value


def parse_exact(text: str | bytes) -> ExactJson:
    """As `parse`, but without floats: a number with a fraction is a Decimal (RUN-23)."""
    value: ExactJson = _parsed(text, _exact)
    return value


def _parsed(text: str | bytes, fraction: Callable[[str], object]) -> Any:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise JsonRefused("the body is not UTF-8") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=fraction, parse_constant=_constant
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(f"not JSON: line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise JsonRefused(f"nested deeper than {MAX_DEPTH}") from None
    _check(value, 0)
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonRefused("an object names a member twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _MAX_INTEGER_DIGITS or abs(int(digits)) > MAX_SAFE_INTEGER:
        raise JsonRefused("an integer is beyond 2^53 - 1")
    return int(digits)


def _float(digits: str) -> int | float:
    number = float(digits)
    if not math.isfinite(number):
        raise JsonRefused("a number is out of range")
    if number.is_integer() and abs(number) <= MAX_SAFE_INTEGER:
        return int(number)
    return number


def _exact(digits: str) -> int | Decimal:
    _float(digits)  # rejects numbers out of range
    try:
        number = Decimal(digits)
    except InvalidOperation:  # an exponent of twenty digits
        raise JsonRefused("a number is out of range") from None
    whole = number.to_integral_value()
    return int(whole) if whole == number and abs(whole) <= MAX_SAFE_INTEGER else number


def _constant(_name: str) -> NoReturn:
    raise JsonRefused("NaN and Infinity are not JSON")


def _check(value: object, depth: int) -> None:
    """Check that strings and names can be stored as Postgres text, and that nesting is at most 64 levels."""
    match value:
        case str():
            if "\x00" in value:
                raise JsonRefused("a string holds NUL")
            try:
                value.encode("utf-8")
            except UnicodeEncodeError:
                raise JsonRefused("a string holds a lone surrogate") from None
        case list() | dict():
            if depth == MAX_DEPTH:
                raise JsonRefused(f"nested deeper than {MAX_DEPTH}")
            items = value if isinstance(value, list) else (*value.keys(), *value.values())
            for item in items:
                _check(item, depth + 1)
        case _:
            return
