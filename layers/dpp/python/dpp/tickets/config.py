"""Settings of the ticket functions (TIX-1, TIX-5, TIX-7)."""

from collections.abc import Sequence
from typing import Self

from pydantic import model_validator

from dpp.platform.config import Settings, TimeZoneSettings, variable
from dpp.tickets import staleness
from dpp.tickets.model import RequestType


class ReportsSettings(Settings):
    """The S3 bucket for copies of reports (TIX-4)."""

    reports_bucket: str = variable(
        "DPP_REPORTS_BUCKET", "The bucket for copies of the reaper's reports.", min_length=3, max_length=63
    )


class ReaperSettings(TimeZoneSettings):
    """The reaper's rules. `excluded`: request types that are never stale, separated by commas."""

    threshold_seconds: int = variable(
        "DPP_TICKET_REAPER_THRESHOLD_SECONDS",
        "A ticket in progress is stale after this many seconds without activity.",
        staleness.DEFAULT_THRESHOLD_SECONDS,
        ge=staleness.MIN_THRESHOLD_SECONDS,
        le=staleness.MAX_THRESHOLD_SECONDS,
    )
    max_clean: int = variable(
        "DPP_TICKET_REAPER_MAX_CLEAN",
        "The number of stale tickets that one run of the reaper ends at most.",
        staleness.DEFAULT_MAX_CLEAN,
        ge=1,
        le=staleness.MAX_MAX_CLEAN,
    )
    excluded: str = variable(
        "DPP_TICKET_REAPER_EXCLUDED_TYPES", "Ticket types that are never stale, separated by commas.", ""
    )
    breaker_count: int = variable(
        "DPP_TICKET_REAPER_BREAKER_COUNT",
        "With more stale tickets than this, the reaper ends none until an operator confirms.",
        100,
        ge=1,
    )
    breaker_share: float = variable(
        "DPP_TICKET_REAPER_BREAKER_SHARE",
        "The same if at least 20 tickets are stale and they exceed this share of all in progress.",
        0.5,
        ge=0,
        le=1,
        allow_inf_nan=False,
    )

    @property
    def excluded_types(self) -> Sequence[RequestType]:
        return tuple(RequestType(name.strip()) for name in self.excluded.split(",") if name.strip())

    @property
    def rules(self) -> staleness.ReaperRules:
        breaker = staleness.Breaker(self.breaker_count, self.breaker_share)
        return staleness.ReaperRules(self.threshold_seconds, self.max_clean, breaker, self.excluded_types)

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
