"""The states of a ticket and every way between them (000 §4; TIX-2).

`TRANSITIONS` is the whole machine; the table's trigger refuses any other way, and docs/tickets.md is drawn from it.
"""

from dataclasses import dataclass
from enum import StrEnum


class TicketStatus(StrEnum):
    """Where a ticket stands."""

    OPEN = "OPEN"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Transition:
    """One way: the query that goes it, and who."""

    source: TicketStatus | None
    target: TicketStatus
    query: str
    by: str


TRANSITIONS = (
    Transition(None, TicketStatus.OPEN, "file_ticket", "an operator"),
    Transition(TicketStatus.OPEN, TicketStatus.IN_PROGRESS, "take_open", "the ops cycle"),
    Transition(TicketStatus.IN_PROGRESS, TicketStatus.IN_PROGRESS, "take_again", "the ops cycle"),
    Transition(TicketStatus.IN_PROGRESS, TicketStatus.DONE, "finish", "the ops cycle"),
    Transition(TicketStatus.IN_PROGRESS, TicketStatus.FAILED, "finish", "the ops cycle"),
    Transition(TicketStatus.IN_PROGRESS, TicketStatus.FAILED, "reap", "the reaper"),
)

TERMINAL = frozenset({TicketStatus.DONE, TicketStatus.FAILED})
