"""The retention periods of all contexts: the `retention` section (LIFE-8).

The first seven names and defaults are those of the source document. A deployment may override periods by name (`-c
retention='{"seen_days": 45}'`, DPP_RETENTION). A section with contradictions is rejected.
"""

import json
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpp.platform.config import Settings

Days = Annotated[int, Field(ge=1, le=3_650)]

_NO_LONGER = (
    ("results_days", "queue_days", "a result is found by its task"),
    ("prompts_days", "queue_days", "a prompt is found by its task"),
    ("session_logs_days", "queue_days", "a session log is found by its task"),
    ("queue_days", "seen_days", "an event must stay marked as seen"),
    ("outbox_days", "auth_errors_days", "an outbox message belongs to an authentication error"),
    ("workspace_events_days", "workspaces_days", "an event belongs to a workspace"),
)


class Retention(BaseModel):
    """Periods in days; a period starts when the item is completed, sent, written or last seen.

    `log_max_mb`: the size at which a local log is rotated. `horizon_days`: an event that is older, by the clock of its
    source, is not accepted. Its id is kept longer than that, so that no event is accepted twice (LIFE-6).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    log_max_mb: Annotated[int, Field(ge=1, le=10_000)] = 100
    logs_days: Days = 7
    results_days: Days = 7
    queue_days: Days = 7
    prompts_days: Days = 3
    session_logs_days: Days = 7
    seen_days: Days = 30

    horizon_days: Days = 28
    cleanups_days: Days = 90
    tombstones_days: Days = 400
    tickets_days: Days = 400
    ops_receipts_days: Days = 90
    reaper_reports_days: Days = 400
    outbox_days: Days = 30
    auth_errors_days: Days = 180
    workspace_events_days: Days = 90
    workspaces_days: Days = 180

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.seen_days <= self.horizon_days:
            raise ValueError(
                f"seen_days is {self.seen_days}, but must be greater than horizon_days ({self.horizon_days}): an event"
                " within the horizon may be delivered again"
            )
        for pointing, pointed_at, why in _NO_LONGER:
            kept, longest = getattr(self, pointing), getattr(self, pointed_at)
            if kept > longest:
                raise ValueError(f"{pointing} is {kept}, but must not exceed {pointed_at} ({longest}): {why}")
        return self


def _section(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('not JSON; expected an object like {"seen_days": 45}') from None


class RetentionSettings(Settings):
    """The retention section of a deployment."""

    variable: ClassVar = "DPP_RETENTION"
    retention: Annotated[Retention, BeforeValidator(_section)] = Field(
        default=Retention(),
        alias="DPP_RETENTION",
        description="A JSON object of the retention periods that differ from the defaults (retention.md).",
    )
