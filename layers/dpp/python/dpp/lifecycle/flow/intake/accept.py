"""Take an event in once, by whichever way and however often it comes (LIFE-1, LIFE-6)."""

from datetime import datetime
from enum import StrEnum

from dpp.lifecycle.flow.intake import event_rows
from dpp.lifecycle.flow.model import Arrival, NewEvent
from dpp.platform.db.postgres import Connection

AHEAD_HOURS = 24
"""How far a source's clock may be ahead of ours. No more than the day by which `seen_days` is above `horizon_days`."""


class IntakeOutcome(StrEnum):
    """What became of an event that came. TOO_OLD: out of the window, at the horizon or over a day ahead."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    TOO_OLD = "TOO_OLD"


def accept_event(
    connection: Connection,
    event: NewEvent,
    arrival: Arrival,
    horizon_days: int,
    now: datetime | None = None,
) -> IntakeOutcome:
    """Remember the event's id and, only where that is news, write the event, PENDING; both or neither.

    A duplicate is what is pending, dispatched or seen, and never found by looking at what is completed (LIFE-6). Every
    event's row refers to its seen row, so to be pending or dispatched is to be seen, and one look is enough.

    Never two of one: an id may be forgotten `seen_days` after it came, which is a day more than `horizon_days` at
    least, and it came a day before its own time at the most; by then it is at the horizon. May be repeated.
    """
    with connection.transaction():
        if event_rows.outside_window(connection, event.happened_at, horizon_days, AHEAD_HOURS, now):
            return IntakeOutcome.TOO_OLD
        if not event_rows.remember(connection, event.event_id, now):
            return IntakeOutcome.DUPLICATE
        event_rows.insert_event(connection, event, arrival, now)
    return IntakeOutcome.ACCEPTED
