"""Accepts an event once, however often and by whatever way it arrives (LIFE-1, LIFE-6)."""

from datetime import datetime
from enum import StrEnum

from dpp.lifecycle.flow.intake import event_rows
from dpp.lifecycle.flow.model import Arrival, NewEvent
from dpp.platform.db.postgres import Connection

AHEAD_HOURS = 24
"""Allowed lead of a source's clock. At most the day by which `seen_days` exceeds `horizon_days`."""


class IntakeOutcome(StrEnum):
    """The outcome for an event. TOO_OLD: outside the window, at the horizon or more than a day ahead."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    TOO_OLD = "TOO_OLD"


def accept_event(
    connection: Connection, event: NewEvent, arrival: Arrival, horizon_days: int, now: datetime | None = None
) -> IntakeOutcome:
    """Mark the event's id as seen and, if it is new, write the PENDING event, both in one transaction. May be repeated.

    A duplicate is an event that is pending, dispatched or seen; completed events are not searched (LIFE-6). The row of
    every event refers to its seen row, so that one lookup is enough.

    An event is never accepted twice. Its seen row is deleted `seen_days` after the arrival, which is at least a day
    more than `horizon_days`. It arrived at most a day before its own time, so that by then it is beyond the horizon.
    """
    with connection.transaction():
        if event_rows.outside_window(connection, event.happened_at, horizon_days, AHEAD_HOURS, now):
            return IntakeOutcome.TOO_OLD
        if not event_rows.remember(connection, event.event_id, now):
            return IntakeOutcome.DUPLICATE
        event_rows.insert_event(connection, event, arrival, now)
    return IntakeOutcome.ACCEPTED
