"""Tickets, as stored in Postgres (TIX-1, TIX-2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dpp.tickets.machine import TicketStatus

REAPER = "TICKET_REAPER"
"""The processor_id of the reaper."""


class RequestType(StrEnum):
    """The type of a request."""

    EXECUTION_ENABLE = "EXECUTION_ENABLE"
    EXECUTION_DISABLE = "EXECUTION_DISABLE"
    BUDGET_CREDIT = "BUDGET_CREDIT"
    DLQ_REDRIVE = "DLQ_REDRIVE"


@dataclass(frozen=True, slots=True)
class Ticket:
    """An audited request. `sequence` is the order of filing; `attempts` counts how often processing started."""

    request_id: UUID
    sequence: int
    request_type: RequestType
    params: Mapping[str, Any] = field(repr=False)
    reason: str
    requested_by: str
    current_status: TicketStatus
    attempts: int
    processor_id: str | None
    last_processed_at: datetime | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class TicketResult:
    """The result of a ticket (000 §4-B)."""

    request_id: UUID
    processor_id: str
    status: TicketStatus
    processed_at: datetime
    message: str


@dataclass(frozen=True, slots=True)
class TicketTransition:
    """One transition of a ticket; a trigger writes it."""

    from_status: TicketStatus | None
    to_status: TicketStatus
    actor: str
    attempt: int
    happened_at: datetime


@dataclass(frozen=True, slots=True)
class CleanedTicket:
    """A stale ticket that the reaper ended."""

    request_id: UUID
    request_type: RequestType
    last_processed_at: datetime


@dataclass(frozen=True, slots=True)
class Backlog:
    """The numbers of tickets in progress, and of stale ones among them."""

    in_progress: int
    stale: int
