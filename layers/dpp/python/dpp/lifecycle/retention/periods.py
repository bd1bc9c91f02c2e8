"""For how long what is kept: the `retention` section (LIFE-8), the one place that says so for all contexts.

The first seven names and defaults are the source document's. A deployment may say otherwise by name
(`-c retention='{"seen_days": 45}'`, DPP_RETENTION). A section that contradicts itself is refused.
"""

import json
from typing import Annotated, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpp.platform.config import Settings

Days = Annotated[int, Field(ge=1, le=3_650)]

_NO_LONGER = (
    ("results_days", "queue_days", "a result is read by way of its task"),
    ("prompts_days", "queue_days", "a prompt is read by way of its task"),
    ("session_logs_days", "queue_days", "a session's log is read by way of its task"),
    ("queue_days", "seen_days", "an event in the queue is always one that was seen"),
    ("outbox_days", "auth_errors_days", "an outbox message is of an authentication error"),
    ("workspace_events_days", "workspaces_days", "an event is of a workspace"),
)


class Retention(BaseModel):
    """Periods in days after what they name is over: completed, sent, written, or last seen.

    `log_max_mb`: a local log is rotated at this size. `horizon_days`: an event that is older, by its source's clock, is
    not taken in any more; what was seen is remembered for longer, so nothing that can come again is forgotten (LIFE-6).
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
    def _contradicts_itself_nowhere(self) -> Self:
        if self.seen_days <= self.horizon_days:
            raise ValueError(
                f"seen_days is {self.seen_days}, and an event of {self.horizon_days} days (horizon_days) may come"
                " again: what was seen is remembered for longer"
            )
        for pointing, pointed_at, why in _NO_LONGER:
            kept, longest = getattr(self, pointing), getattr(self, pointed_at)
            if kept > longest:
                raise ValueError(
                    f"{pointing} is {kept}, {pointed_at} {longest}: {why}, and is kept no longer"
                )
        return self


def _section(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError('not JSON; it looks like {"seen_days": 45}') from None


class RetentionSettings(Settings):
    """The retention section of a deployment."""

    variable: ClassVar = "DPP_RETENTION"
    retention: Annotated[Retention, BeforeValidator(_section)] = Field(
        default=Retention(),
        alias="DPP_RETENTION",
        description="For how long what is kept: a JSON object of the periods that shall differ (retention.md).",
    )
