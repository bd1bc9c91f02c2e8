"""Rows as dataclasses: columns become fields of the same name, and their values what the fields say.

A text becomes the enum's member, JSON a nested dataclass or model. Columns without a field are ignored.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, LiteralString

from pydantic import TypeAdapter

from dpp.platform.db.postgres import Connection, named_rows


def from_row[Model](model: type[Model], row: Mapping[str, object]) -> Model:
    """One row. Raises ValidationError if it is not as `model` says, such as one that a later release wrote."""
    found: Model = _adapter(model).validate_python(row)  # type: ignore[arg-type] # a class is hashable
    return found


def rows_as[Model](
    model: type[Model], connection: Connection, query: LiteralString, params: Mapping[str, object]
) -> list[Model]:
    """Execute a statement and return its rows. Raises ValidationError."""
    return [from_row(model, row) for row in named_rows(connection, query, params)]


def row_as[Model](
    model: type[Model], connection: Connection, query: LiteralString, params: Mapping[str, object]
) -> Model | None:
    """Execute a statement and return its first row, None if there is none. Raises ValidationError."""
    return next(iter(rows_as(model, connection, query, params)), None)


@cache
def _adapter(model: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(model)
