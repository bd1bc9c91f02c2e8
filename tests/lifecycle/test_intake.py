"""An event is accepted once, however often and by whatever way it arrives (LIFE-1, LIFE-6)."""

import threading
from datetime import datetime, timedelta

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpp.lifecycle.flow.intake.accept import IntakeOutcome, accept_event
from dpp.lifecycle.flow.model import Arrival, NewEvent
from dpp.platform.db.postgres import Connection
from tests.lifecycle.poll_environment import DAY, HORIZON_DAYS, NOW, new_event

A_MOMENT = timedelta(microseconds=1)


def taken(connection: Connection, event: NewEvent, now: datetime = NOW, horizon: int = HORIZON_DAYS) -> IntakeOutcome:
    return accept_event(connection, event, Arrival.POLL, horizon, now)


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def end_all(connection: Connection, at: datetime) -> None:
    """Dispatch and complete every event."""
    connection.execute("UPDATE lifecycle_events SET status = 'DISPATCHED', dispatched_at = %s", (at,))
    connection.execute("UPDATE lifecycle_events SET status = 'COMPLETED', ended_at = %s", (at,))


def purge(connection: Connection, now: datetime, queue_days: int, seen_days: int) -> None:
    """Delete as the cleaner does."""
    connection.execute("DELETE FROM lifecycle_events WHERE ended_at < %s", (now - queue_days * DAY,))
    connection.execute(
        "DELETE FROM lifecycle_seen s WHERE seen_at < %s"
        " AND NOT EXISTS (SELECT FROM lifecycle_events e WHERE e.event_id = s.event_id)",
        (now - seen_days * DAY,),
    )


def test_life_1_an_event_begins_pending_with_what_it_is_about(database_url: str) -> None:
    event = new_event()
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert taken(connection, event) is IntakeOutcome.ACCEPTED
        row = connection.execute(
            "SELECT source, kind, arrived_by, payload, happened_at, status, created_at FROM lifecycle_events"
        ).fetchone()
    subject = event.subject.model_dump()
    assert row == ("GITHUB", "MENTIONED", "POLL", subject, NOW, "PENDING", NOW)


def test_life_6_a_poll_and_a_webhook_of_one_event_are_one(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert accept_event(connection, new_event(), Arrival.WEBHOOK, HORIZON_DAYS, NOW) is IntakeOutcome.ACCEPTED
        assert accept_event(connection, new_event(), Arrival.POLL, HORIZON_DAYS, NOW) is IntakeOutcome.DUPLICATE
        assert count(connection, "lifecycle_events") == 1


@pytest.mark.parametrize(
    ("happened_at", "expected"),
    [
        (NOW - HORIZON_DAYS * DAY, IntakeOutcome.TOO_OLD),
        (NOW - HORIZON_DAYS * DAY + A_MOMENT, IntakeOutcome.ACCEPTED),
        (NOW + DAY, IntakeOutcome.ACCEPTED),
        (NOW + DAY + A_MOMENT, IntakeOutcome.TOO_OLD),
    ],
)
def test_event_outside_the_window_is_neither_written_nor_marked_as_seen(
    database_url: str, happened_at: datetime, expected: IntakeOutcome
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        assert taken(connection, new_event(happened_at=happened_at)) is expected
        assert count(connection, "lifecycle_seen") == (expected is IntakeOutcome.ACCEPTED)


def test_life_6_of_two_connections_at_once_one_takes_it_in(database_url: str) -> None:
    outcomes: list[IntakeOutcome] = []
    both = threading.Barrier(2)

    def take(first: bool) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            both.wait()
            outcomes.extend(taken(connection, new_event(number)) for number in range(50))

    threads = [threading.Thread(target=take, args=(first,)) for first in (True, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted([IntakeOutcome.ACCEPTED] * 50 + [IntakeOutcome.DUPLICATE] * 50)


def test_life_6_the_second_waits_for_the_first_and_takes_it_in_where_that_one_fails(database_url: str) -> None:
    with psycopg.connect(database_url) as first, psycopg.connect(database_url, autocommit=True) as second:
        first.execute("SELECT 1")
        assert taken(first, new_event()) is IntakeOutcome.ACCEPTED  # in an open transaction
        second.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            taken(second, new_event())
        first.rollback()
        assert taken(second, new_event()) is IntakeOutcome.ACCEPTED


def test_an_event_that_can_not_be_written_is_not_remembered(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE lifecycle_events ADD CHECK (kind <> 'MENTIONED')")
        with pytest.raises(psycopg.errors.CheckViolation):
            taken(connection, new_event())
        assert count(connection, "lifecycle_seen") == 0


def test_life_6_it_is_a_duplicate_25_days_later_when_nothing_of_it_is_left_but_its_id(database_url: str) -> None:
    later = NOW + 25 * DAY
    with psycopg.connect(database_url, autocommit=True) as connection:
        taken(connection, new_event())
        end_all(connection, NOW + DAY)
        purge(connection, later, queue_days=7, seen_days=30)
        assert count(connection, "lifecycle_events") == 0
        assert taken(connection, new_event(), later) is IntakeOutcome.DUPLICATE


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    horizon=st.integers(1, 60),
    longer=st.integers(1, 20),
    arrivals=st.lists(st.integers(-24 * 60 * 2, 24 * 60 * 90), min_size=2, max_size=12),
)
def test_life_6_an_event_never_becomes_two_whenever_it_comes_again(
    database_url: str, horizon: int, longer: int, arrivals: list[int]
) -> None:
    """Arrivals in minutes after the event by its source's clock, which may be ahead; a cleanup precedes each one."""
    edges = [-24 * 60, (horizon + longer - 1) * 24 * 60, horizon * 24 * 60]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DELETE FROM lifecycle_events")
        connection.execute("DELETE FROM lifecycle_seen")
        outcomes = []
        for minutes in sorted([*arrivals, *edges]):
            now = NOW + timedelta(minutes=minutes)
            purge(connection, now, queue_days=1, seen_days=horizon + longer)
            outcomes.append(taken(connection, new_event(), now, horizon))
            connection.execute(
                "UPDATE lifecycle_events SET status = 'DISPATCHED', dispatched_at = %s WHERE status = 'PENDING'", (now,)
            )
            connection.execute(
                "UPDATE lifecycle_events SET status = 'COMPLETED', ended_at = %s WHERE status = 'DISPATCHED'", (now,)
            )
        assert outcomes.count(IntakeOutcome.ACCEPTED) == 1
