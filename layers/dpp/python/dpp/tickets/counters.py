"""The ops counters (TIX-7): tickets by type and state. A stale ticket is not counted as in progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from dpp.platform.db.postgres import Connection
from dpp.tickets import store
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType
from dpp.tickets.staleness import ReaperRules


@dataclass(slots=True)
class Group:
    """Tickets in one state: their number, and since when the oldest is in it."""

    count: int = 0
    oldest_at: datetime | None = None

    def add(self, count: int, oldest_at: datetime | None) -> None:
        self.count += count
        if oldest_at is not None and (self.oldest_at is None or oldest_at < self.oldest_at):
            self.oldest_at = oldest_at


@dataclass(slots=True)
class Recent:
    """Tickets that ended in one state within a day, and within seven days."""

    last_day: int = 0
    last_week: int = 0


@dataclass(slots=True)
class Counters:
    """The counters of one type or of all types."""

    open: Group = field(default_factory=Group)
    in_progress: Group = field(default_factory=Group)
    stale: Group = field(default_factory=Group)
    done: Recent = field(default_factory=Recent)
    failed: Recent = field(default_factory=Recent)

    def waiting(self, state: str) -> Group:
        """The group of `state`: OPEN, IN_PROGRESS or STALE."""
        return {"OPEN": self.open, "IN_PROGRESS": self.in_progress, "STALE": self.stale}[state]

    def ended(self, status: TicketStatus) -> Recent:
        """The group of `status`: DONE or FAILED."""
        return self.done if status is TicketStatus.DONE else self.failed


@dataclass(frozen=True, slots=True)
class OpsCounters:
    """The counters of all tickets at one time; a type without tickets has zeros."""

    asof: datetime
    threshold_seconds: int
    total: Counters
    by_type: Mapping[RequestType, Counters]


def count(connection: Connection, rules: ReaperRules, now: datetime | None = None) -> OpsCounters:
    """Count all tickets. Every figure is read from an index; ended tickets are counted for a week."""
    total, by_type = Counters(), {kind: Counters() for kind in RequestType}
    with connection.transaction():
        asof = store.clock(connection, now)
        for waits in store.count_waiting(connection, rules, now):
            for counters in (total, by_type[waits.request_type]):
                counters.waiting(waits.state).add(waits.count, waits.oldest_at)
        for ended in store.count_ended(connection, now):
            for counters in (total, by_type[ended.request_type]):
                recent = counters.ended(ended.status)
                recent.last_day += ended.last_day
                recent.last_week += ended.last_week
    return OpsCounters(asof, rules.threshold_seconds, total, by_type)
