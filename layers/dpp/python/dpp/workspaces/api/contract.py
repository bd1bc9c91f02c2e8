"""Request and response bodies of the workspaces API (003 §1, §3; WS-2, WS-3, WS-6).

No message repeats a value that a client sent.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from dpp.platform.http.fields import MAX_PAGE, PageLimit
from dpp.workspaces.machine import REQUESTABLE_STATES
from dpp.workspaces.model import DesiredState, Operation, Phase

_YEAR_SECONDS = 365 * 24 * 3600
NO_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
"""Characters that a name must not contain: control characters, which a terminal may interpret, and line breaks."""
_CURSOR = re.compile("[0-9]{1,18}", re.ASCII)


def _requestable(value: object) -> object:
    if value not in REQUESTABLE_STATES:
        raise ValueError(f"must be one of {', '.join(REQUESTABLE_STATES)}; to delete the workspace, use DELETE")
    return value


def _not_null(value: object) -> object:
    if value is None:
        raise ValueError("must not be null; leave it out to keep the value")
    return value


def _cursor(value: str) -> str:
    if not _CURSOR.fullmatch(value):
        raise ValueError("must be a next_cursor of an earlier answer")
    return value


Name = Annotated[
    str,
    StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=100, pattern=rf"^[^{NO_CONTROL}]+$"),
    Field(description="A display name. It can be changed, and need not be unique."),
]
RequestedState = Annotated[
    DesiredState,
    BeforeValidator(_requestable),
    WithJsonSchema({"type": "string", "enum": [state.value for state in REQUESTABLE_STATES]}),
]
Ttl = Annotated[int, Field(strict=True, ge=60, le=_YEAR_SECONDS)]
_STANDBY = "Seconds without use after which a RUNNING workspace goes to STANDBY; null: never."
_ARCHIVE = "Further seconds without use after which a STANDBY workspace goes to ARCHIVED; null: never."


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class WorkspaceCreateRequest(_Request):
    """The body of POST /v1/workspaces."""

    name: Name
    desired_state: RequestedState = DesiredState.RUNNING
    standby_ttl_seconds: Annotated[Ttl | None, Field(description=_STANDBY)] = None
    archive_ttl_seconds: Annotated[Ttl | None, Field(description=_ARCHIVE)] = None


class WorkspaceChangeRequest(_Request):
    """The body of PATCH /v1/workspaces/{workspace_id}; omitted members stay as they are (RFC 7396)."""

    # Only a TTL may be null. None means that the member was omitted.
    name: Annotated[Name | None, BeforeValidator(_not_null)] = None
    desired_state: Annotated[RequestedState | None, BeforeValidator(_not_null)] = None
    standby_ttl_seconds: Annotated[Ttl | None, Field(description=_STANDBY)] = None
    archive_ttl_seconds: Annotated[Ttl | None, Field(description=_ARCHIVE)] = None


class WorkspaceQuery(_Request):
    """The query of GET /v1/workspaces."""

    phase: Annotated[Phase | None, Field(description="Only workspaces in this phase.")] = None
    cursor: Annotated[str, AfterValidator(_cursor)] | None = None
    limit: PageLimit = MAX_PAGE


class ConditionView(_Response):
    """An observed condition (003 §1)."""

    status: bool
    reason: str
    message: str
    last_transition_time: datetime


class WorkspaceErrorView(_Response):
    """The failure of its operation; terminal: it is not retried until an operator acts."""

    reason: str
    message: str
    is_terminal: bool
    retry_count: int


class WorkspaceView(_Response):
    """A workspace: its desired state, its observed state, and the operation under way."""

    workspace_id: UUID
    name: str
    desired_state: DesiredState
    phase: Phase
    operation: Operation
    conditions: Mapping[str, ConditionView]
    observed_at: datetime | None
    error: WorkspaceErrorView | None
    standby_ttl_seconds: Annotated[int | None, Field(description="As requested; omitted: never.")]
    archive_ttl_seconds: Annotated[int | None, Field(description="As requested; omitted: never.")]
    last_access_at: datetime
    created_at: datetime
    deleted_at: datetime | None
    next_step: Annotated[str, Field(description="The next step, or what the workspace waits for, as text.")]


class WorkspacePageView(_Response):
    """A page of a tenant's workspaces, newest first."""

    workspaces: tuple[WorkspaceView, ...]
    next_cursor: str | None


class WorkspaceEventView(_Response):
    """An event of a workspace."""

    happened_at: datetime
    actor: str
    kind: str
    from_value: str | None
    to_value: str | None
    reason: str | None
    message: str | None


class WorkspaceEventsView(_Response):
    """The latest events of a workspace, newest first."""

    events: tuple[WorkspaceEventView, ...]
