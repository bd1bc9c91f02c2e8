"""What a ticket is, as rows (TIX-1, TIX-2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dpp.tickets.machine import TicketStatus

REAPER = "TICKET_REAPER"
"""The processor that ends what nobody finished."""


class RequestType(StrEnum):
    """What is asked for."""

    EXECUTION_ENABLE = "EXECUTION_ENABLE"
    EXECUTION_DISABLE = "EXECUTION_DISABLE"
    BUDGET_CREDIT = "BUDGET_CREDIT"
    DLQ_REDRIVE = "DLQ_REDRIVE"


@dataclass(frozen=True, slots=True)
class Ticket:
    """An audited request. `sequence` is the order of filing; `attempts` counts how often it was taken."""

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
    """How a ticket ended (000 §4-B)."""

    request_id: UUID
    processor_id: str
    status: TicketStatus
    processed_at: datetime
    message: str


@dataclass(frozen=True, slots=True)
class TicketTransition:
    """One line of a ticket's history; the database writes it."""

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
    """What is in progress: all of it, and what of it is stale."""

    in_progress: int
    stale: int
