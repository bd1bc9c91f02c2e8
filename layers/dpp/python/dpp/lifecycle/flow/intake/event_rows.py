"""SQL of accepted events and of the ids that are kept as seen."""

from datetime import datetime

from psycopg.types.json import Jsonb

from dpp.lifecycle.flow.model import Arrival, NewEvent
from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.flow.intake", "events.sql")


def known(connection: Connection, event_id: str) -> bool:
    """True if the event's id is marked as seen."""
    row = connection.execute(QUERIES["known"], {"event_id": event_id}).fetchone()
    return row is not None and bool(row[0])


def outside_window(
    connection: Connection, happened_at: datetime, horizon_days: int, ahead_hours: int, now: datetime | None
) -> bool:
    """True if the event is at the horizon or older, or too far in the future."""
    params = {"happened_at": happened_at, "horizon_days": horizon_days, "ahead_hours": ahead_hours, "now": now}
    row = connection.execute(QUERIES["outside_window"], params).fetchone()
    return row is None or bool(row[0])


def remember(connection: Connection, event_id: str, now: datetime | None) -> bool:
    """Mark an id as seen. Returns False if it is marked already."""
    params = {"event_id": event_id, "now": now}
    return connection.execute(QUERIES["remember"], params).fetchone() is not None


def insert_event(connection: Connection, event: NewEvent, arrival: Arrival, now: datetime | None) -> None:
    """Write the PENDING event. The schema requires that its id is marked as seen."""
    params = {
        "event_id": event.event_id,
        "source": event.source,
        "kind": event.kind,
        "arrived_by": arrival,
        "payload": Jsonb(event.subject.model_dump(mode="json")),
        "happened_at": event.happened_at,
        "now": now,
    }
    connection.execute(QUERIES["insert_event"], params)
