"""The machines of events, tasks and messages, held against the schema (LIFE-1, LIFE-2, LIFE-5)."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import psycopg
import pytest

from dpp.lifecycle.flow import machine as flow
from dpp.platform.state_machine import StateMachine
from tests.lifecycle.environment import Environment

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
_MACHINES: dict[str, tuple[Any, StateMachine[Any]]] = {
    "lifecycle_events": (flow.EventStatus, flow.EVENT_MACHINE),
    "lifecycle_tasks": (flow.TaskStatus, flow.TASK_MACHINE),
    "lifecycle_messages": (flow.MessageStatus, flow.MESSAGE_MACHINE),
}
_NOT_REFUSED = {("lifecycle_tasks", "PENDING", "PENDING"), ("lifecycle_messages", "PENDING", "PENDING")}
"""Nothing moves: a row's next attempt is planned."""


def _pairs() -> Iterator[tuple[str, str | None, str, bool]]:
    for table, (statuses, machine) in _MACHINES.items():
        for source, target in product((None, *statuses), statuses):
            known = machine.allows(source, target)
            allowed = known or (table, source, target) in _NOT_REFUSED
            yield table, source, target, allowed


def _move(env: Environment, table: str, target: str) -> None:
    env.rows(f"UPDATE {table} SET status = '{target}', {_STAMPS[table][target]}")


@pytest.mark.parametrize(("table", "source", "target", "allowed"), list(_pairs()))
def test_the_schema_takes_the_ways_of_the_machine_and_no_other(
    env: Environment, table: str, source: str | None, target: str, allowed: bool
) -> None:
    env.emit("a task")
    env.dispatch()
    with env.admin.transaction(force_rollback=True):
        env.rows("SET LOCAL session_replication_role = replica")
        env.rows(f"UPDATE {table} SET status = '{source or target}', {_STAMPS[table][source or target]}")
        env.rows("SET LOCAL session_replication_role = origin")
        if source is None:
            env.rows(f"CREATE TEMPORARY TABLE row ON COMMIT DROP AS TABLE {table}")
            env.rows("ALTER TABLE row DROP COLUMN sequence")
            env.rows(
                f"SET LOCAL session_replication_role = replica; DELETE FROM {table};"
                "SET LOCAL session_replication_role = origin"
            )
        columns = _columns(env, table) if source is None else ""
        statement = (
            f"INSERT INTO {table} ({columns}) SELECT {columns} FROM row"
            if source is None
            else f"UPDATE {table} SET status = '{target}', {_STAMPS[table][target]}"
        )
        if allowed:
            env.rows(statement)
        else:
            with pytest.raises(psycopg.errors.CheckViolation) as refused:
                env.rows(statement)
            assert "transition" in (refused.value.diag.constraint_name or "")


def _columns(env: Environment, table: str) -> str:
    found = env.rows(
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
    env: Environment, table: str, change: str
) -> None:
    env.emit("a task")
    if table != "lifecycle_events":
        env.dispatch()
    with pytest.raises(psycopg.errors.CheckViolation):
        env.rows(f"UPDATE {table} SET {change}")


def test_a_sent_message_never_changes_again(env: Environment) -> None:
    """LIFE-5."""
    env.emit("a task")
    env.dispatch()
    env.notify()
    with pytest.raises(psycopg.errors.CheckViolation):
        env.rows("UPDATE lifecycle_messages SET attempts = 9")


def test_every_way_names_the_role_that_makes_it() -> None:
    machines: tuple[StateMachine[Any], ...] = (flow.EVENT_MACHINE, flow.TASK_MACHINE, flow.MESSAGE_MACHINE)
    assert all(one.by and one.when for machine in machines for one in machine.transitions)
