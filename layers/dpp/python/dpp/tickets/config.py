"""What the ticket functions read from their environment (TIX-1, TIX-5, TIX-7)."""

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
    """The S3 bucket that keeps the copies of reports (TIX-4)."""

    reports_bucket: str = Field(
        alias="DPP_REPORTS_BUCKET",
        min_length=3,
        max_length=63,
        description="The bucket of copies of the reaper's reports.",
    )


class ReaperSettings(TimeZoneSettings):
    """The reaper's rules. `excluded_types`: request types that are never stale, separated by commas."""

    threshold_seconds: int = Field(
        default=DEFAULT_THRESHOLD_SECONDS,
        alias="DPP_TICKET_REAPER_THRESHOLD_SECONDS",
        ge=MIN_THRESHOLD_SECONDS,
        le=MAX_THRESHOLD_SECONDS,
        description="For so long nothing is heard of a ticket in progress before it is stale.",
    )
    max_clean: int = Field(
        default=DEFAULT_MAX_CLEAN,
        alias="DPP_TICKET_REAPER_MAX_CLEAN",
        ge=1,
        le=MAX_MAX_CLEAN,
        description="How many stale tickets one run of the reaper ends.",
    )
    excluded: str = Field(
        default="",
        alias="DPP_TICKET_REAPER_EXCLUDED_TYPES",
        description="Types of tickets that are never stale, between commas.",
    )
    breaker_count: int = Field(
        default=100,
        alias="DPP_TICKET_REAPER_BREAKER_COUNT",
        ge=1,
        description="With more stale tickets than this the reaper ends none until an operator confirms it.",
    )
    breaker_share: float = Field(
        default=0.5,
        alias="DPP_TICKET_REAPER_BREAKER_SHARE",
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="The same with 20 of them that are more than this share of all in progress.",
    )

    @property
    def excluded_types(self) -> Sequence[RequestType]:
        """The types that are never stale."""
        return tuple(RequestType(name.strip()) for name in self.excluded.split(",") if name.strip())

    @property
    def rules(self) -> ReaperRules:
        """The rules as the reaper takes them."""
        breaker = Breaker(self.breaker_count, self.breaker_share)
        return ReaperRules(self.threshold_seconds, self.max_clean, breaker, self.excluded_types)

    @model_validator(mode="after")
    def _types_exist(self) -> Self:
        try:
            _ = self.excluded_types
        except ValueError:
            known = ", ".join(RequestType)
            raise ValueError(f"DPP_TICKET_REAPER_EXCLUDED_TYPES: of {known}, separated by commas") from None
        return self
