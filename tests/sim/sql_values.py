"""The operators and functions of SQL, as compiled statements call them. NULL is None; logic has three values."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from decimal import Decimal
from math import floor
from typing import Any
from uuid import UUID


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """NULL if an argument is NULL; the function of them otherwise."""

    def call(*values: Any) -> Any:
        for value in values:
            if value is None or (type(value) is tuple and None in value):
                return None
        return function(*values)

    return call


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def _in(value: Any, values: Iterable[Any]) -> bool | None:
    return None if value is None else value in values


def _between(value: Any, low: Any, high: Any) -> bool | None:
    return None if value is None else low <= value <= high


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _sum(values: list[int]) -> Decimal | None:
    return Decimal(sum(values)) if values else None


def _scalar(rows: Sequence[tuple[Any, ...]]) -> Any:
    return rows[0][0] if rows else None


def _ordered(keyed: list[tuple[Any, Any]]) -> list[Any]:
    keyed.sort(key=operator.itemgetter(0))
    return [row for _, row in keyed]


def _cast(value: Any, kind: str) -> Any:
    return None if value is None else _CASTS[kind](value)


def _as_json(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


_CASTS: Mapping[str, Callable[[Any], Any]] = {
    "BIGINT": int,
    "DOUBLE PRECISION": float,
    "TEXT": str,
    "UUID[]": lambda values: [UUID(str(value)) for value in values],
}
_JSON_TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}

FUNCTIONS: Mapping[str, Any] = {
    "eq": _of_values(operator.eq),
    "ne": _of_values(operator.ne),
    "lt": _of_values(operator.lt),
    "le": _of_values(operator.le),
    "gt": _of_values(operator.gt),
    "ge": _of_values(operator.ge),
    "add": _of_values(operator.add),
    "sub": _of_values(operator.sub),
    "mul": _of_values(operator.mul),
    "not_": _of_values(operator.not_),
    "neg": _of_values(operator.neg),
    "and_": _and,
    "or_": _or,
    "same": operator.eq,
    "differs": operator.ne,
    "in_": _in,
    "between": _between,
    "overlaps": lambda left, right: not set(left).isdisjoint(right),
    "matches": _of_values(lambda text, pattern: re.search(pattern, text) is not None),
    "length": _of_values(len),
    "floored": _of_values(floor),
    "seconds": _of_values(lambda value: timedelta(seconds=value)),
    "coalesce": _coalesce,
    "sum_": _sum,
    "scalar": _scalar,
    "ordered": _ordered,
    "cast": _cast,
    "as_json": _as_json,
    "json_type": lambda value: _JSON_TYPES.get(type(value)),
    "timedelta": timedelta,
    "deepcopy": deepcopy,
}
"""The names that the source of a compiled statement can use."""
