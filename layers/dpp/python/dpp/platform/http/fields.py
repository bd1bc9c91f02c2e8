"""Fields that bodies and queries of several contexts have; no message repeats what was sent."""

import re
from typing import Annotated
from uuid import UUID

from pydantic import BeforeValidator, Field, StringConstraints

from dpp.platform.ids import parse_uuid

MAX_PAGE = 100


def _canonical(value: object) -> object:
    if isinstance(value, UUID):
        return value
    parsed = parse_uuid(value) if isinstance(value, str) else None
    if parsed is None:
        raise ValueError("must be a UUID as 8-4-4-4-12 hexadecimal digits")
    return parsed


def _digits(value: object) -> object:
    """A number in a query is its digits: no sign, no space, no point."""
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,3}", value, re.ASCII):
        raise ValueError("must be a number of at most three digits")
    return value


CanonicalUuid = Annotated[UUID, BeforeValidator(_canonical)]
"""A UUID in its one text form: no braces, no URN, no bare digits."""

PageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(_digits)]
"""How many a page holds, as a query says it."""

Reason = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=500)]
"""Why an operator does something, in words."""
