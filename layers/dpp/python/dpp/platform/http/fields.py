"""Field types that the bodies and queries of several contexts share. No message repeats what was sent."""

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
    """A number in a query must consist of digits only: no sign, space or point."""
    if isinstance(value, str) and not re.fullmatch("[0-9]{1,3}", value, re.ASCII):
        raise ValueError("must be a number of at most three digits")
    return value


CanonicalUuid = Annotated[UUID, BeforeValidator(_canonical)]
"""A UUID in its canonical text form: no braces, no URN, no bare digits."""

PageLimit = Annotated[int, Field(ge=1, le=MAX_PAGE), BeforeValidator(_digits)]
"""The page size in a query."""

Reason = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=500)]
"""An operator's reason, as free text."""
