"""Request and response bodies of the tickets API (TIX-5). No error message repeats what the client sent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dpp.platform.http.fields import CanonicalUuid, PageLimit, Reason
from dpp.tickets import staleness
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType
from dpp.tickets.report import Instant


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Answered(BaseModel):
    model_config = ConfigDict(frozen=True)


class TicketCreateRequest(_Sent):
    """The body of POST /api/tickets; `PARAMS` has the model of `params` for each type."""

    request_id: Annotated[
        CanonicalUuid, Field(description="Chosen by the client: a repeated request files the ticket once.")
    ]
    request_type: RequestType
    params: Mapping[str, Any] = {}
    reason: Annotated[Reason, Field(description="The reason, stored with the ticket.")]


class ReaperRunRequest(_Sent):
    """The body of POST /api/tickets/reaper/run; every field is optional."""

    threshold_seconds: (
        Annotated[
            int,
            Field(
                strict=True,
                ge=staleness.MIN_THRESHOLD_SECONDS,
                le=staleness.MAX_THRESHOLD_SECONDS,
                description=f"The deployment's setting if omitted, {staleness.DEFAULT_THRESHOLD_SECONDS} by default.",
            ),
        ]
        | None
    ) = None
    max_clean: (
        Annotated[
            int,
            Field(
                strict=True,
                ge=1,
                le=staleness.MAX_MAX_CLEAN,
                description=f"The deployment's setting if omitted, {staleness.DEFAULT_MAX_CLEAN} by default.",
            ),
        ]
        | None
    ) = None
    dry_run: Annotated[bool, Field(strict=True, description="Return a report; change and store nothing.")] = False
    confirm_stale_count: Annotated[
        int, Field(strict=True, ge=0, description="The breaker doesn't trip for up to this many stale tickets.")
    ] = 0


class EmergencyStopRequest(_Sent):
    """The body of PUT /api/ops/emergency-stop."""

    stopped: Annotated[bool, Field(strict=True)]
    reason: Reason


class TicketQuery(_Sent):
    """Query parameters of GET /api/tickets."""

    status: TicketStatus | None = None
    request_type: RequestType | None = None
    limit: PageLimit = 50
    cursor: Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}$")] | None = None


class ResultView(_Answered):
    """The result of a ticket (000 §4-B)."""

    request_id: UUID
    processor_id: str
    status: Literal[TicketStatus.DONE, TicketStatus.FAILED]
    processed_at: Instant
    message: str


class TransitionView(_Answered):
    """One transition of a ticket."""

    from_status: TicketStatus | None
    to_status: TicketStatus
    actor: str
    attempt: int
    happened_at: Instant


class TicketView(_Answered):
    """The current state of a ticket."""

    request_id: UUID
    request_type: RequestType
    params: Mapping[str, Any]
    reason: str
    requested_by: str
    current_status: TicketStatus
    attempts: int
    processor_id: str | None
    last_processed_at: Instant | None
    created_at: Instant
    updated_at: Instant


class WholeTicketView(TicketView):
    """A ticket with its result, if it has ended, and its history."""

    result: ResultView | None
    transitions: tuple[TransitionView, ...]


class TicketPageView(_Answered):
    """Tickets, the newest first. `next_cursor` is the cursor of the next page, missing on the last one."""

    tickets: tuple[TicketView, ...]
    next_cursor: str | None


class WaitingView(_Answered):
    """The number of tickets in this state, and since when the oldest is in it."""

    count: int
    oldest_at: Instant | None


class RecentView(_Answered):
    """The number of tickets that ended like this within a day, and within seven days."""

    last_day: int
    last_week: int


class CountersView(_Answered):
    """The counters of one type or of all types. A stale ticket is not counted as in progress."""

    open: WaitingView
    in_progress: WaitingView
    stale: WaitingView
    done: RecentView
    failed: RecentView


class OpsCountersView(_Answered):
    """The counters of all tickets."""

    asof: Instant
    threshold_seconds: int
    total: CountersView
    by_type: Mapping[RequestType, CountersView]


class EmergencyStopView(_Answered):
    """The emergency stop, and the operator who changed it last."""

    stopped: bool
    actor: str
    reason: str
    changed_at: Instant
