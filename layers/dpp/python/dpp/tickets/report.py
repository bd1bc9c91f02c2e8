"""TICKET_REAPER_REPORT_V1 (000 §2, §3): exactly its fields, refused where they contradict each other (TIX-3)."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from dpp.tickets.model import RequestType
from dpp.tickets.staleness import REASON

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", re.ASCII)


class Decision(StrEnum):
    """Whether anything was ended."""

    NONE = "NONE"
    CLEANED = "CLEANED"


def raw_path(text: str) -> str:
    """RAW_PATH_ONLY: a bare relative path. No scheme, host, query or fragment, not absolute, no `.` or `..` in it.

    Raises ValueError.
    """
    if len(text) > 200 or not all(_SEGMENT.fullmatch(part) for part in text.split("/")):
        raise ValueError("must be a bare relative path of letters, digits, '_', '-' and '.'")
    return text


type RawPath = Annotated[str, AfterValidator(raw_path)]

Instant = Annotated[AwareDatetime, PlainSerializer(datetime.isoformat, return_type=str)]
"""With the offset that it has, not turned into `Z` (TIX-7)."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CleanedItem(_Part):
    """A ticket that was ended."""

    request_id: UUID
    request_type: RequestType
    last_processed_at: Instant
    reason: Literal["AUTO_CLEANUP_STALE_IN_PROGRESS"] = REASON


class ReaperReport(_Part):
    """What one run of the reaper found and did. `stale_count`: all that were stale, ended or not."""

    schema_: Annotated[Literal["TICKET_REAPER_REPORT_V1"], Field(alias="schema")] = "TICKET_REAPER_REPORT_V1"
    asof: Instant
    decision: Decision
    threshold_seconds: Annotated[int, Field(gt=0)]
    stale_count: Annotated[int, Field(ge=0)]
    cleaned_count: Annotated[int, Field(ge=0)]
    cleaned_items: tuple[CleanedItem, ...]
    evidence_refs: tuple[RawPath, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.cleaned_count != len(self.cleaned_items) or self.cleaned_count > self.stale_count:
            raise ValueError("the counts don't fit the items")
        if (self.decision is Decision.CLEANED) != (self.cleaned_count > 0):
            raise ValueError("the decision doesn't fit the counts")
        return self

    def to_json(self) -> str:
        """The report as it is published: the seed's fields, in the seed's order."""
        return self.model_dump_json(by_alias=True)
