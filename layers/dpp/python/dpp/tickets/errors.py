"""Errors of tickets, the reaper and the ops cycle. The first docstring line of a class is its default message."""

from collections.abc import Mapping
from datetime import datetime


class TicketsError(Exception):
    """Base of this context's errors. `members` are additional members of the problem document."""

    def __init__(self, detail: str | None = None, **members: str | int) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.members: Mapping[str, str | int] = members


class TicketNotFound(TicketsError):
    """There is no ticket with this id."""


class TicketConflict(TicketsError):
    """This request_id belongs to a different request. Use a new request_id."""


class NoReportYet(TicketsError):
    """The reaper has not run yet."""


class SnapshotNotFound(TicketsError):
    """There is no snapshot with this name."""


class NoReceiptYet(TicketsError):
    """The ops cycle has not run yet."""


class ReaperRunning(TicketsError):
    """The reaper is already running."""

    def __init__(self, started_at: datetime, holder: str) -> None:
        since = started_at.isoformat(timespec="seconds")
        detail = f"The reaper is already running since {since} (started by {holder}). Try again later."
        super().__init__(detail, started_at=since, actor=holder)


class ReaperOvertaken(TicketsError):
    """The run took longer than its lease, and another run started. Nothing was changed. Try again."""


class CycleRunning(TicketsError):
    """An ops cycle is already running."""

    def __init__(self, started_at: datetime, holder: str) -> None:
        since = started_at.isoformat(timespec="seconds")
        super().__init__(f"An ops cycle is already running since {since} (run {holder}).")


class EmergencyStopSet(TicketsError):
    """The emergency stop is set. An operator must clear it first."""

    def __init__(self, actor: str, reason: str) -> None:
        super().__init__(f"The emergency stop is set (by {actor}: {reason}).", actor=actor)


class TicketRefused(Exception):
    """The request can't be carried out now or later. The message becomes the ticket's result."""
