"""The machines of events, tasks and messages, held against the schema (LIFE-1, LIFE-2, LIFE-5)."""

from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from dpp.lifecycle.flow.machine import (
    EVENT_WAYS,
    MESSAGE_WAYS,
    TASK_WAYS,
    EventStatus,
    MessageStatus,
    TaskStatus,
    Way,
)
from tests.lifecycle.court import Court, a_court, a_url  # noqa: F401 - fixtures

_STAMPS = {
    "lifecycle_events": {
        "PENDING": "dispatched_at = NULL, ended_at = NULL",
        "DISPATCHED": "dispatched_at = now(), ended_at = NULL",
        "COMPLETED": "dispatched_at = now(), ended_at = now()",
        "FAILED": "dispatched_at = now(), ended_at = now()",
    },
    "lifecycle_tasks": {
        "PENDING": "attempt = 0, started_at = NULL, ended_at = NULL, outcome = NULL",
        "IN_PROGRESS": "attempt = 1, started_at = now(), ended_at = NULL, outcome = NULL",
        "COMPLETED": "attempt = 1, started_at = now(), ended_at = now(), outcome = 'FAILED'",
    },
    "lifecycle_messages": {"PENDING": "sent_at = NULL", "SENT": "sent_at = now()"},
}
_MACHINES = {
    "lifecycle_events": (EventStatus, EVENT_WAYS),
    "lifecycle_tasks": (TaskStatus, TASK_WAYS),
    "lifecycle_messages": (MessageStatus, MESSAGE_WAYS),
}
_NOT_REFUSED = {("lifecycle_tasks", "PENDING", "PENDING"), ("lifecycle_messages", "PENDING", "PENDING")}
"""Nothing moves: a row's next attempt is planned."""


def _pairs() -> Iterator[tuple[str, str | None, str, bool]]:
    for table, (statuses, ways) in _MACHINES.items():
        known = {(way.source, way.target) for way in ways}
        for source, target in product((None, *statuses), statuses):
            allowed = (source, target) in known or (table, source, target) in _NOT_REFUSED
            yield table, source, target, allowed


def _move(court: Court, table: str, target: str) -> None:
    court.rows(f"UPDATE {table} SET status = '{target}', {_STAMPS[table][target]}")


@pytest.mark.parametrize(("table", "source", "target", "allowed"), list(_pairs()))
def test_the_schema_takes_the_ways_of_the_machine_and_no_other(
    court: Court, table: str, source: str | None, target: str, allowed: bool
) -> None:
    court.emit("a task")
    court.king()
    with court.admin.transaction(force_rollback=True):
        court.rows("SET LOCAL session_replication_role = replica")
        court.rows(f"UPDATE {table} SET status = '{source or target}', {_STAMPS[table][source or target]}")
        court.rows("SET LOCAL session_replication_role = origin")
        if source is None:
            court.rows(f"CREATE TEMPORARY TABLE row ON COMMIT DROP AS TABLE {table}")
            court.rows("ALTER TABLE row DROP COLUMN sequence")
            court.rows(
                f"SET LOCAL session_replication_role = replica; DELETE FROM {table};"
                "SET LOCAL session_replication_role = origin"
            )
        columns = _columns(court, table) if source is None else ""
        statement = (
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM row"
            if source is None
            else f"UPDATE {table} SET status = '{target}', {_STAMPS[table][target]}"
        )
        if allowed:
            court.rows(statement)
        else:
            with pytest.raises(psycopg.errors.CheckViolation) as refused:
                court.rows(statement)
            assert "transition" in (refused.value.diag.constraint_name or "")


def _columns(court: Court, table: str) -> str:
    found = court.rows(
        "SELECT string_agg(column_name, ', ') FROM information_schema.columns"
        " WHERE table_name = %(table)s AND column_name <> 'sequence' AND table_schema = 'public'",
        {"table": table},
    )
    return str(found[0][0])


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("lifecycle_events", "status = 'DISPATCHED', dispatched_at = now(), payload = '{}'"),
        ("lifecycle_events", "status = 'DISPATCHED', dispatched_at = now(), kind = 'UPDATED'"),
        ("lifecycle_tasks", "subject = '{}'"),
        ("lifecycle_tasks", "event_id = 'another'"),
        ("lifecycle_messages", "status = 'SENT', sent_at = now(), body = 'other words'"),
        ("lifecycle_tasks", "waits_for_person = true"),
        ("lifecycle_tasks", "run_id = gen_random_uuid()"),
        ("lifecycle_messages", "sent_at = now()"),
    ],
)
def test_what_a_row_is_about_never_changes_and_its_shape_is_its_status_s(
    court: Court, table: str, change: str
) -> None:
    court.emit("a task")
    if table != "lifecycle_events":
        court.king()
    with pytest.raises(psycopg.errors.CheckViolation):
        court.rows(f"UPDATE {table} SET {change}")


def test_a_sent_message_never_changes_again(court: Court) -> None:
    """LIFE-5."""
    court.emit("a task")
    court.king()
    court.envoy()
    with pytest.raises(psycopg.errors.CheckViolation):
        court.rows("UPDATE lifecycle_messages SET attempts = 9")


def test_every_way_names_the_role_that_makes_it() -> None:
    ways: tuple[Way, ...] = (*EVENT_WAYS, *TASK_WAYS, *MESSAGE_WAYS)
    assert all(way.by and way.why for way in ways)
