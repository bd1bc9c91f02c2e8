"""TICKET_REAPER_REPORT_V1 (000 §2, §3). A report whose fields contradict each other is rejected (TIX-3)."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, model_validator

from dpp.tickets.model import RequestType
from dpp.tickets.staleness import REASON

_SEGMENT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", re.ASCII)


class Decision(StrEnum):
    """The result of a run: CLEANED if it ended a ticket."""

    NONE = "NONE"
    CLEANED = "CLEANED"


def raw_path(text: str) -> str:
    """RAW_PATH_ONLY: a relative path without scheme, host, query, fragment, `.` and `..`. Raises ValueError."""
    if len(text) > 200 or not all(_SEGMENT.fullmatch(part) for part in text.split("/")):
        raise ValueError("must be a relative path of letters, digits, '_', '-' and '.'")
    return text


type RawPath = Annotated[str, AfterValidator(raw_path)]

Instant = Annotated[AwareDatetime, PlainSerializer(datetime.isoformat, return_type=str)]
"""A time that keeps its UTC offset in JSON; it is not converted to `Z` (TIX-7)."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CleanedItem(_Part):
    """A stale ticket that the reaper ended."""

    request_id: UUID
    request_type: RequestType
    last_processed_at: Instant
    reason: Literal["AUTO_CLEANUP_STALE_IN_PROGRESS"] = REASON


class ReaperReport(_Part):
    """The report of one run of the reaper. `stale_count` includes stale tickets that were not ended."""

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
            raise ValueError("cleaned_count must be the number of items and at most stale_count")
        if (self.decision is Decision.CLEANED) != (self.cleaned_count > 0):
            raise ValueError("decision must be CLEANED if and only if cleaned_count is above 0")
        return self

    def to_json(self) -> str:
        """The published form, with the fields in the order of 000 §2."""
        return self.model_dump_json(by_alias=True)
