"""Bodies of the tickets API, in and out (TIX-5). Bounds are said where they break; no message repeats what was sent."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dpp.platform.http.fields import CanonicalUuid, PageLimit, Reason
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType
from dpp.tickets.report import Instant
from dpp.tickets.staleness import (
    DEFAULT_MAX_CLEAN,
    DEFAULT_THRESHOLD_SECONDS,
    MAX_MAX_CLEAN,
    MAX_THRESHOLD_SECONDS,
    MIN_THRESHOLD_SECONDS,
)


class _Sent(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Answered(BaseModel):
    model_config = ConfigDict(frozen=True)


class TicketCreateRequest(_Sent):
    """The body of POST /api/tickets; `params` are its type's (`PARAMS`)."""

    request_id: Annotated[CanonicalUuid, Field(description="Chosen by who files: the same one files once.")]
    request_type: RequestType
    params: Mapping[str, Any] = {}
    reason: Annotated[Reason, Field(description="Why; kept with the ticket.")]


class ReaperRunRequest(_Sent):
    """The body of POST /api/tickets/reaper/run; all of it may be left out."""

    threshold_seconds: (
        Annotated[
            int,
            Field(
                strict=True,
                ge=MIN_THRESHOLD_SECONDS,
                le=MAX_THRESHOLD_SECONDS,
                description=f"The deployment's own if not given, {DEFAULT_THRESHOLD_SECONDS} by default.",
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
                le=MAX_MAX_CLEAN,
                description=f"The deployment's own if not given, {DEFAULT_MAX_CLEAN} by default.",
            ),
        ]
        | None
    ) = None
    dry_run: Annotated[bool, Field(strict=True, description="Report, change nothing, leave no report.")] = (
        False
    )
    confirm_stale_count: Annotated[
        int, Field(strict=True, ge=0, description="So many may be stale for all that the breaker says.")
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
    """How a ticket ended (000 §4-B)."""

    request_id: UUID
    processor_id: str
    status: Literal[TicketStatus.DONE, TicketStatus.FAILED]
    processed_at: Instant
    message: str


class TransitionView(_Answered):
    """One line of a ticket's history."""

    from_status: TicketStatus | None
    to_status: TicketStatus
    actor: str
    attempt: int
    happened_at: Instant


class TicketView(_Answered):
    """A ticket as it stands."""

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
    """A ticket with its end, if it came to one, and its history."""

    result: ResultView | None
    transitions: tuple[TransitionView, ...]


class TicketPageView(_Answered):
    """Tickets, the newest first. `next_cursor`: ask with it for those behind; missing on the last page."""

    tickets: tuple[TicketView, ...]
    next_cursor: str | None


class WaitingView(_Answered):
    """How many wait so, and since when the oldest does."""

    count: int
    oldest_at: Instant | None


class RecentView(_Answered):
    """How many ended so within a day, and within seven."""

    last_day: int
    last_week: int


class CountersView(_Answered):
    """Of one type, or of all: what is stale is not in progress."""

    open: WaitingView
    in_progress: WaitingView
    stale: WaitingView
    done: RecentView
    failed: RecentView


class OpsCountersView(_Answered):
    """All tickets, counted."""

    asof: Instant
    threshold_seconds: int
    total: CountersView
    by_type: Mapping[RequestType, CountersView]


class EmergencyStopView(_Answered):
    """Whether the stop is set, and who said so last."""

    stopped: bool
    actor: str
    reason: str
    changed_at: Instant
