"""Settings of the ticket functions (TIX-1, TIX-5, TIX-7)."""

from collections.abc import Sequence
from typing import Self

from pydantic import Field, model_validator

from dpp.platform.config import Settings, TimeZoneSettings
from dpp.tickets.model import RequestType
from dpp.tickets.staleness import (
    DEFAULT_MAX_CLEAN,
    DEFAULT_THRESHOLD_SECONDS,
    MAX_MAX_CLEAN,
    MAX_THRESHOLD_SECONDS,
    MIN_THRESHOLD_SECONDS,
    Breaker,
    ReaperRules,
)


class ReportsSettings(Settings):
    """The S3 bucket for copies of reports (TIX-4)."""

    reports_bucket: str = Field(
        alias="DPP_REPORTS_BUCKET",
        min_length=3,
        max_length=63,
        description="The bucket for copies of the reaper's reports.",
    )


class ReaperSettings(TimeZoneSettings):
    """The reaper's rules. `excluded`: request types that are never stale, separated by commas."""

    threshold_seconds: int = Field(
        default=DEFAULT_THRESHOLD_SECONDS,
        alias="DPP_TICKET_REAPER_THRESHOLD_SECONDS",
        ge=MIN_THRESHOLD_SECONDS,
        le=MAX_THRESHOLD_SECONDS,
        description="A ticket in progress is stale after this many seconds without activity.",
    )
    max_clean: int = Field(
        default=DEFAULT_MAX_CLEAN,
        alias="DPP_TICKET_REAPER_MAX_CLEAN",
        ge=1,
        le=MAX_MAX_CLEAN,
        description="The number of stale tickets that one run of the reaper ends at most.",
    )
    excluded: str = Field(
        default="",
        alias="DPP_TICKET_REAPER_EXCLUDED_TYPES",
        description="Ticket types that are never stale, separated by commas.",
    )
    breaker_count: int = Field(
        default=100,
        alias="DPP_TICKET_REAPER_BREAKER_COUNT",
        ge=1,
        description="With more stale tickets than this, the reaper ends none until an operator confirms.",
    )
    breaker_share: float = Field(
        default=0.5,
        alias="DPP_TICKET_REAPER_BREAKER_SHARE",
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="The same if at least 20 tickets are stale and they exceed this share of all in progress.",
    )

    @property
    def excluded_types(self) -> Sequence[RequestType]:
        return tuple(RequestType(name.strip()) for name in self.excluded.split(",") if name.strip())

    @property
    def rules(self) -> ReaperRules:
        breaker = Breaker(self.breaker_count, self.breaker_share)
        return ReaperRules(self.threshold_seconds, self.max_clean, breaker, self.excluded_types)

    @model_validator(mode="after")
    def _types_exist(self) -> Self:
        try:
            _ = self.excluded_types
        except ValueError:
            known = ", ".join(RequestType)
            raise ValueError(
                f"DPP_TICKET_REAPER_EXCLUDED_TYPES must list types of {known}, separated by commas"
            ) from None
        return self
