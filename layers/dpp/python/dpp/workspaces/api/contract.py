"""Bodies of the workspaces API, in and out (003 §1, §3; WS-2, WS-3, WS-6). No message repeats what was sent."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
)

from dpp.platform.http.fields import MAX_PAGE, PageLimit
from dpp.workspaces.machine import WISHES
from dpp.workspaces.model import DesiredState, Operation, Phase

_YEAR_SECONDS = 365 * 24 * 3600
NO_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""What a line of text has none of: control characters, which a terminal may obey, and line breaks."""
_CURSOR = re.compile("[0-9]{1,18}", re.ASCII)


def _wish(value: object) -> object:
    if value not in WISHES:
        raise ValueError(f"must be one of {', '.join(WISHES)}; to delete it, use DELETE")
    return value


def _given(value: object) -> object:
    if value is None:
        raise ValueError("must not be null; leave it out, and it stays")
    return value


def _cursor(value: str) -> str:
    if not _CURSOR.fullmatch(value):
        raise ValueError("must be a next_cursor as it was answered")
    return value


Name = Annotated[
    str,
    StringConstraints(
        strict=True, strip_whitespace=True, min_length=1, max_length=100, pattern=rf"^[^{NO_CONTROL}]+$"
    ),
    Field(description="For people; it may be changed, and names nothing."),
]
Wish = Annotated[
    DesiredState,
    BeforeValidator(_wish),
    WithJsonSchema({"type": "string", "enum": [state.value for state in WISHES]}),
]
Ttl = Annotated[int, Field(strict=True, ge=60, le=_YEAR_SECONDS)]
_STANDBY = "Seconds without use after which a RUNNING workspace is to be STANDBY; null: never."
_ARCHIVE = "Seconds without use after that, until a STANDBY workspace is to be ARCHIVED; null: never."


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _Answered(BaseModel):
    model_config = ConfigDict(frozen=True)


class WorkspaceCreateRequest(_Sent):
    """The body of POST /v1/workspaces."""

    name: Name
    desired_state: Wish = DesiredState.RUNNING
    standby_ttl_seconds: Annotated[Ttl | None, Field(description=_STANDBY)] = None
    archive_ttl_seconds: Annotated[Ttl | None, Field(description=_ARCHIVE)] = None


class WorkspaceChangeRequest(_Sent):
    """The body of PATCH /v1/workspaces/{workspace_id}: what is left out stays (RFC 7396)."""

    # A null is an answer to "how long" alone; where one of these two is None, it was left out.
    name: Annotated[Name | None, BeforeValidator(_given)] = None
    desired_state: Annotated[Wish | None, BeforeValidator(_given)] = None
    standby_ttl_seconds: Annotated[Ttl | None, Field(description=_STANDBY)] = None
    archive_ttl_seconds: Annotated[Ttl | None, Field(description=_ARCHIVE)] = None


class WorkspaceQuery(_Sent):
    """The query of GET /v1/workspaces."""

    phase: Annotated[Phase | None, Field(description="Only those of this phase.")] = None
    cursor: Annotated[str, AfterValidator(_cursor)] | None = None
    limit: PageLimit = MAX_PAGE


class ConditionView(_Answered):
    """One thing that was observed (003 §1)."""

    status: bool
    reason: str
    message: str
    last_transition_time: datetime


class WorkspaceErrorView(_Answered):
    """Why its operation failed; terminal: it waits for a person."""

    reason: str
    message: str
    is_terminal: bool
    retry_count: int


class WorkspaceView(_Answered):
    """A workspace: what is wanted, what was seen, what is being done."""

    workspace_id: UUID
    name: str
    desired_state: DesiredState
    phase: Phase
    operation: Operation
    conditions: Mapping[str, ConditionView]
    observed_at: datetime | None
    error: WorkspaceErrorView | None
    standby_ttl_seconds: Annotated[int | None, Field(description="As it was asked for; left out: never.")]
    archive_ttl_seconds: Annotated[int | None, Field(description="As it was asked for; left out: never.")]
    last_access_at: datetime
    created_at: datetime
    deleted_at: datetime | None
    next_step: Annotated[str, Field(description="What comes next, or what it waits for, in words.")]


class WorkspacePageView(_Answered):
    """Some of a tenant's workspaces, the newest first."""

    workspaces: tuple[WorkspaceView, ...]
    next_cursor: str | None


class WorkspaceEventView(_Answered):
    """One thing that happened to a workspace."""

    happened_at: datetime
    actor: str
    kind: str
    from_value: str | None
    to_value: str | None
    reason: str | None
    message: str | None


class WorkspaceEventsView(_Answered):
    """What happened to it last, the newest first."""

    events: tuple[WorkspaceEventView, ...]
