"""JSON values compared by structure: names in any order, elements in theirs, numbers by value (RUN-28)."""

import json
from decimal import Decimal
from typing import NoReturn

from pydantic import JsonValue

from dpp.packs.evaluation import numbers

_MAX_DEPTH = 64

type Tree = bool | str | Decimal | list[Tree] | dict[str, Tree] | None


class NotJsonError(ValueError):
    """The text is not JSON, or names a member twice, or holds NaN, or nests deeper than 64."""


def read(value: JsonValue) -> Tree:
    """The value with its numbers as decimals; a string is read as JSON text. Raises NotJsonError."""
    if isinstance(value, str):
        try:
            value = json.loads(
                value.removeprefix("\ufeff"),  # RFC 8259, 8.1: a byte order mark may be ignored
                object_pairs_hook=_object,
                parse_int=numbers.from_text,
                parse_float=numbers.from_text,
                parse_constant=_refuse,
            )
        except (ValueError, RecursionError):
            raise NotJsonError from None
    return _tree(value, 0)


def leaves(tree: Tree) -> int:
    """Return how many strings, numbers, literals and empty containers the value has; at least one."""
    if isinstance(tree, dict | list) and tree:
        children = tree.values() if isinstance(tree, dict) else tree
        return sum(leaves(child) for child in children)
    return 1


def common_leaves(one: Tree, other: Tree) -> int:
    """Return how many leaves stand in both, at the same place; all of them only where the two are the same."""
    if isinstance(one, dict) and isinstance(other, dict) and one and other:
        return sum(common_leaves(child, other[name]) for name, child in one.items() if name in other)
    if isinstance(one, list) and isinstance(other, list) and one and other:
        return sum(common_leaves(*pair) for pair in zip(one, other, strict=False))
    return int(type(one) is type(other) and one == other)


def _tree(value: object, depth: int) -> Tree:
    if depth > _MAX_DEPTH:
        raise NotJsonError
    match value:
        case None | bool() | str() | Decimal():
            return value
        case int() | float():
            try:
                return numbers.from_json(value)
            except numbers.NotANumberError:
                raise NotJsonError from None
        case list():
            return [_tree(child, depth + 1) for child in value]
        case dict():
            return {name: _tree(child, depth + 1) for name, child in value.items()}
        case _:
            raise NotJsonError


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJsonError
    return found


def _refuse(_name: str) -> NoReturn:
    raise NotJsonError
