"""Request and response bodies of the authentication errors API (004 §5.1; AUTH-1, AUTH-11).

Fields have the names of the source document. No error message repeats what the client sent.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from dpp.auth_errors.api.sanitize import MAX_MESSAGE_CHARACTERS, MAX_STACKTRACE_CHARACTERS, clean, without_query
from dpp.auth_errors.machine import AuthErrorStatus, DecisionType, OutboxStatus, ProcessedStatus
from dpp.auth_errors.model import DecidedBy
from dpp.auth_errors.outbox.events import EventType
from dpp.platform.http.fields import CanonicalUuid, PageLimit, Reason

MAX_BODY_BYTES = 4 * 2**20
"""Larger than for other bodies: a stack trace of megabytes is cut, not rejected. Lambda's limit is 6 MB per event."""

_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# RFC 3339 with an offset, as Java's OffsetDateTime writes and reads it (004 §5.1); seconds are optional.
_INSTANT = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:\d{2}(?::\d{2})?)", re.ASCII
)
_CURSOR = re.compile(r"(\d{1,17})_(\d{1,18})", re.ASCII)


def _instant(value: object) -> object:
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be a time with a UTC offset, such as 2026-01-31T09:30:00+09:00")
    try:
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", value.upper())).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be an existing time") from None


def _in_range(value: datetime) -> datetime:
    if not _EARLIEST <= value < _LATEST:
        raise ValueError("must be a time in the years 2000 to 2099")
    return value


Instant = Annotated[datetime, BeforeValidator(_instant), AfterValidator(_in_range)]
"""A time with a UTC offset, stored as UTC with microseconds."""


def _message(value: str | None) -> str | None:
    return None if value is None else clean(value, MAX_MESSAGE_CHARACTERS)


def _trace(value: str) -> str:
    cleaned = clean(value, MAX_STACKTRACE_CHARACTERS)
    if cleaned is None:
        raise ValueError("must not be blank")
    return cleaned


def _path(value: str | None) -> str | None:
    return None if value is None else clean(without_query(value), MAX_MESSAGE_CHARACTERS)


def _cursor(value: str) -> str:
    if not _CURSOR.fullmatch(value):
        raise ValueError("must be a nextCursor of an earlier response")
    return value


_LINE = r"^[^\x00-\x1f\x7f]+$"
RequestId = Annotated[
    str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=200, pattern=_LINE)
]
ClassName = Annotated[
    str, StringConstraints(strict=True, strip_whitespace=True, min_length=1, max_length=300, pattern=_LINE)
]
Words = Annotated[str, StringConstraints(strict=True), AfterValidator(_message)]


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)


class _Answered(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class AuthErrorRequest(_Sent):
    """The body of POST /api/auth-errors."""

    request_id: Annotated[
        RequestId, Field(description="The failed request's id. A reporter's repeated report is recorded once.")
    ]
    occurred_at: Annotated[Instant, Field(description="With a UTC offset.")]
    http_status: Annotated[int, Field(strict=True, ge=100, le=599)]
    exception_class: ClassName
    stacktrace: Annotated[
        str,
        StringConstraints(strict=True),
        AfterValidator(_trace),
        Field(description=f"Cut at {MAX_STACKTRACE_CHARACTERS} characters."),
    ]
    exception_message: Words | None = None
    root_cause_class: ClassName | None = None
    root_cause_message: Words | None = None
    service: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    http_method: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z]{1,16}$")] | None = None
    request_path: (
        Annotated[
            str, StringConstraints(strict=True), AfterValidator(_path), Field(description="Stored without its query.")
        ]
        | None
    ) = None


class DecisionRequest(_Sent):
    """The body of POST /api/auth-errors/{authErrorId}/decisions."""

    decision_id: Annotated[CanonicalUuid, Field(description="Chosen by the client: a repeated request decides once.")]
    decision_type: DecisionType
    reason: Reason


class ClusterDecisionRequest(_Sent):
    """The body of POST /api/auth-errors/clusters/{clusterId}/decisions."""

    decision_type: DecisionType
    reason: Reason


class AuthErrorQuery(_Sent):
    """Query parameters of GET /api/auth-errors."""

    status: AuthErrorStatus | None = None
    exception_class: Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=_LINE)] | None = None
    cluster_id: CanonicalUuid | None = None
    occurred_since: Instant | None = None
    occurred_before: Instant | None = None
    limit: PageLimit = 50
    cursor: Annotated[str, AfterValidator(_cursor)] | None = None


class AuthErrorReceiptView(_Answered):
    """The response to a report."""

    auth_error_id: UUID
    request_id: str
    status: AuthErrorStatus
    created_at: datetime


class AuthErrorView(_Answered):
    """An error in a list for operators."""

    auth_error_id: UUID
    request_id: str
    reported_by: str
    occurred_at: datetime
    http_status: int
    exception_class: str
    exception_message: str | None
    service: str | None
    status: AuthErrorStatus
    retry_count: int
    next_retry_at: datetime | None
    last_failure: str | None
    analyzed_at: datetime | None
    escalated_at: datetime | None
    created_at: datetime
    updated_at: datetime


class ClusterView(_Answered):
    """The errors of one stack hash."""

    cluster_id: UUID
    hash_version: str
    stack_hash: str
    exception_class: str
    error_count: int
    first_seen_at: datetime
    last_seen_at: datetime
    escalated_at: datetime | None


class DecisionView(_Answered):
    """A decision, with its actor, reason and inputs."""

    decision_id: UUID
    decision_type: DecisionType
    decided_by: DecidedBy
    actor: str
    reason: str
    inputs: Mapping[str, Any]
    policy_version: int | None
    policy_name: str | None
    from_status: AuthErrorStatus
    to_status: AuthErrorStatus
    decided_at: datetime


class AuthErrorTransitionView(_Answered):
    """One transition of an error."""

    from_status: AuthErrorStatus | None
    to_status: AuthErrorStatus
    actor: str
    failure: str | None
    happened_at: datetime


class EventView(_Answered):
    """An event of an error, with its state in the outbox and at the consumer."""

    outbox_id: int
    event_type: EventType
    status: OutboxStatus
    retry_count: int
    next_retry_at: datetime | None
    last_error: str | None
    published_at: datetime | None
    handled_at: datetime | None
    created_at: datetime
    processed_status: ProcessedStatus | None
    attempts: int | None
    processed_next_retry_at: datetime | None
    processed_error: str | None


class WholeAuthErrorView(AuthErrorView):
    """An error with its clusters, decisions, history and events."""

    http_method: str | None
    request_path: str | None
    root_cause_class: str | None
    root_cause_message: str | None
    stacktrace: str
    clusters: tuple[ClusterView, ...]
    decisions: tuple[DecisionView, ...]
    transitions: tuple[AuthErrorTransitionView, ...]
    events: tuple[EventView, ...]


class AuthErrorPageView(_Answered):
    """Errors, the newest occurrence first. `nextCursor` is the cursor of the next page, missing on the last one."""

    auth_errors: tuple[AuthErrorView, ...]
    next_cursor: str | None


class ClusterPageView(_Answered):
    """The clusters with the newest errors."""

    clusters: tuple[ClusterView, ...]


class ClusterDecidedView(_Answered):
    """The number of decided errors of a cluster. If `more` is true, repeat the request for the rest."""

    decided: int
    more: bool


class ClusterQuery(_Sent):
    """Query parameters of GET /api/auth-errors/clusters."""

    limit: PageLimit = 50
