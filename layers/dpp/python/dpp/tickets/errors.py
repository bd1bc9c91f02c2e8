"""What can be wrong about a ticket or the reaper; a class's first line is its message."""

from collections.abc import Mapping
from datetime import datetime


class TicketsError(Exception):
    """Base of this context's refusals. `members`: what the problem document says besides."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class TicketNotFound(TicketsError):
    """There is no such ticket."""


class TicketConflict(TicketsError):
    """This request_id stands for another request: file under a new one."""


class NoReportYet(TicketsError):
    """The reaper has not run yet."""


class SnapshotNotFound(TicketsError):
    """There is no such snapshot."""


class NoReceiptYet(TicketsError):
    """The ops cycle has not run yet."""


class ReaperRunning(TicketsError):
    """Another run of the reaper is under way."""

    def __init__(self, started_at: datetime, holder: str) -> None:
        told = started_at.isoformat(timespec="seconds")
        super().__init__(
            f"Another run of the reaper, by {holder}, is under way since {told}.",
            started_at=told,
            actor=holder,
        )


class ReaperOvertaken(TicketsError):
    """The run took longer than its lease, and another has it: nothing was changed."""


class CycleRunning(TicketsError):
    """Another ops cycle is under way."""


class EmergencyStopSet(TicketsError):
    """The emergency stop is set: nothing is changed until an operator clears it."""

    def __init__(self, actor: str, reason: str) -> None:
        super().__init__(f"The emergency stop is set, by {actor}: {reason}", actor=actor)


class TicketRefused(Exception):
    """The request can't be carried out, now or later; the message goes into the ticket's result."""
