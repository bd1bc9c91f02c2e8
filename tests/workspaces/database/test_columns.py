"""One writer per column, enforced by the database (003 §3; WS-6), and its other constraints (WS-2 … WS-8)."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from dpp.workspaces.machine import API_COLUMNS, MONITOR_COLUMNS, RECONCILER_COLUMNS
from dpp.workspaces.model import archive_key_of
from tests.workspaces.environment import TENANT, open_environment
from tests.workspaces.memory_provider import MemoryProvider, provider_of
from tests.workspaces.rows import OP

ROLES = {
    "dpp_workspace_api": set(API_COLUMNS),
    "dpp_workspace_monitor": set(MONITOR_COLUMNS),
    "dpp_workspace_reconciler": set(RECONCILER_COLUMNS),
}
IMMUTABLE = {"workspace_id", "sequence", "tenant_id", "created_at", "request_key", "request_hash"}
COMPUTED = {"idle_at"}  # by the trigger
ALL = sorted(set().union(*ROLES.values()) - COMPUTED)
type Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def created(shared_database: str) -> Iterator[tuple[str, UUID]]:
    """A database with a workspace, and its id."""
    with open_environment(shared_database, provider_of(MemoryProvider())) as env:
        yield shared_database, env.create()


@pytest.fixture
def connection(created: tuple[str, UUID]) -> Iterator[Connection]:
    """A transaction that is rolled back."""
    with psycopg.connect(created[0]) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def its_id(created: tuple[str, UUID]) -> UUID:
    return created[1]


def assume(connection: Connection, role: str) -> None:
    connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))


def update(connection: Connection, workspace_id: UUID, **columns: Any) -> int:
    """Set columns, and return the number of changed rows."""
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
    )
    statement = sql.SQL("UPDATE workspaces SET {} WHERE workspace_id = {}").format(sets, sql.Placeholder("its_id"))
    return connection.execute(statement, columns | {"its_id": workspace_id}).rowcount


def test_every_column_has_one_writer_or_is_immutable(connection: Connection) -> None:
    """WS-6."""
    found = connection.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'workspaces'")
    names = {row[0] for row in found}
    owned = [name for columns in ROLES.values() for name in columns]
    assert sorted(owned) == sorted(set(owned))
    assert names == IMMUTABLE | set(owned)


@pytest.mark.parametrize("column", [*ALL, *sorted(IMMUTABLE), *sorted(COMPUTED)])
@pytest.mark.parametrize("role", ROLES)
def test_second_writer_of_a_column_is_refused(connection: Connection, its_id: UUID, role: str, column: str) -> None:
    """WS-6: every pair of a writer and a column."""
    assume(connection, role)
    is_own = column in ROLES[role] - COMPUTED
    statement = sql.SQL("UPDATE workspaces SET {0} = {0} WHERE workspace_id = {1}").format(
        sql.Identifier(column), sql.Literal(its_id)
    )
    if is_own:
        assert connection.execute(statement).rowcount == 1
    else:
        refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways)
        with pytest.raises(refused):
            connection.execute(statement)


@pytest.mark.parametrize("column", [*ALL, *sorted(IMMUTABLE - {"sequence"})])
def test_other_roles_write_nothing(connection: Connection, its_id: UUID, column: str) -> None:
    """WS-6: not even the owner of the table."""
    statement = sql.SQL("UPDATE workspaces SET {0} = {0} WHERE workspace_id = {1}").format(
        sql.Identifier(column), sql.Literal(its_id)
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="each under its role"):
        connection.execute(statement)


@pytest.mark.parametrize("role", ["dpp_workspace_monitor", "dpp_workspace_reconciler", None])
def test_only_the_api_creates_a_workspace(connection: Connection, role: str | None) -> None:
    """WS-6."""
    if role is not None:
        assume(connection, role)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "INSERT INTO workspaces (workspace_id, tenant_id, created_at, request_key, request_hash, name,"
            " desired_state, desired_by, last_access_at)"
            f" VALUES (gen_random_uuid(), '{TENANT}', now(), 'a-key-of-ours', repeat('a', 64), 'x', 'RUNNING', 'me',"
            " now())".encode()
        )


@pytest.mark.parametrize("role", ROLES)
def test_no_writer_deletes_a_workspace_or_writes_events(connection: Connection, its_id: UUID, role: str) -> None:
    for statement in (
        "DELETE FROM workspaces",
        "INSERT INTO workspace_events (workspace_id, happened_at, actor, kind)"
        f" VALUES ('{its_id}', now(), 'me', 'CREATED')",
        "UPDATE workspace_events SET actor = 'other'",
        "DELETE FROM workspace_events",
        "TRUNCATE workspace_events",
    ):
        with connection.transaction(force_rollback=True):
            assume(connection, role)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_events_are_append_only_for_the_owner_of_the_table(connection: Connection) -> None:
    with pytest.raises(psycopg.Error, match="append"), connection.transaction():
        connection.execute("DELETE FROM workspace_events")


def _condition(status: bool) -> dict[str, Any]:
    time = "2026-01-01T12:00:00Z"
    return {"status": status, "reason": "Reason", "message": "", "last_transition_time": time}


def _conditions(**changes: Any) -> str:
    return json.dumps({"storage.volume_ready": _condition(True) | changes})


VALID = _conditions()


def test_condition_from_the_document_is_accepted(connection: Connection, its_id: UUID) -> None:
    """003 §1 (WS-2)."""
    assume(connection, "dpp_workspace_monitor")
    assert update(connection, its_id, conditions=VALID, phase="STANDBY", observed_at="2026-01-01") == 1


@pytest.mark.parametrize(
    "conditions",
    [
        "[]",
        "1",
        '{"storage.volume_ready": true}',
        '{"storage.volume_ready": {}}',
        _conditions(status="true"),
        _conditions(status=None),
        _conditions(reason="not one word"),
        _conditions(reason=None),
        _conditions(last_transition_time="yesterday"),
        _conditions(last_transition_time=None),
        _conditions(message="x" * 501),
        _conditions(more=1),
        VALID.replace("storage.volume_ready", "volume_ready"),
        VALID.replace("storage.volume_ready", "Storage.Volume"),
    ],
)
def test_invalid_condition_is_refused(connection: Connection, its_id: UUID, conditions: str) -> None:
    """WS-2: status, reason, message, last_transition_time, and a name with its group."""
    assume(connection, "dpp_workspace_monitor")
    with pytest.raises(psycopg.errors.CheckViolation):
        update(connection, its_id, conditions=conditions, phase="PENDING", observed_at="2026-01-01")


@pytest.mark.parametrize("phase", ["RUNNING", "ARCHIVED", "PENDING", "ERROR", "DELETED"])
def test_phase_that_contradicts_the_conditions_is_refused(connection: Connection, its_id: UUID, phase: str) -> None:
    """WS-3."""
    assume(connection, "dpp_workspace_monitor")
    with pytest.raises(psycopg.errors.CheckViolation, match="are not"):
        update(connection, its_id, conditions=VALID, phase=phase, observed_at="2026-01-01")


def test_older_observation_is_refused(connection: Connection, its_id: UUID) -> None:
    """WS-6: of a delayed monitor."""
    assume(connection, "dpp_workspace_monitor")
    update(connection, its_id, conditions=VALID, phase="STANDBY", observed_at="2026-01-02")
    with pytest.raises(psycopg.errors.CheckViolation, match="older"):
        update(connection, its_id, conditions=VALID, phase="STANDBY", observed_at="2026-01-01")


def test_operations_go_from_none_to_one_and_back(connection: Connection, its_id: UUID) -> None:
    """WS-7: no preemption; each has an id, which does not change."""
    assume(connection, "dpp_workspace_reconciler")
    first = uuid4()
    begins: tuple[dict[str, Any], ...] = (
        {"operation": "STARTING"},
        {"op_id": first},
        {"operation": "STARTING", "op_id": first},
    )
    for wrong in begins:
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            update(connection, its_id, **wrong)
    begun = {"operation": "STARTING", "op_id": first, "op_started_at": "2026-01-01"}
    assert update(connection, its_id, **begun) == 1
    later: tuple[dict[str, Any], ...] = (
        {"operation": "ARCHIVING"},
        {"operation": "ARCHIVING", "op_id": uuid4()},
        {"op_id": uuid4()},
        {"operation": "NONE", "op_started_at": None, "op_id": None},
        {"operation": "NONE"},
    )
    for wrong in later:
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            update(connection, its_id, **wrong)
    assert update(connection, its_id, operation="NONE", op_started_at=None) == 1
    with pytest.raises(psycopg.errors.CheckViolation):
        update(connection, its_id, **begun)  # with an id that was used


def test_terminal_error_and_operation_exclude_each_other(connection: Connection, its_id: UUID) -> None:
    """003 §4: one transaction ends the operation and sets the error (WS-7)."""
    assume(connection, "dpp_workspace_reconciler")
    error = json.dumps({"reason": "Broken", "message": "", "is_terminal": True, "retry_count": 3})
    update(connection, its_id, operation="STARTING", op_id=uuid4(), op_started_at="2026-01-01")
    with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
        update(connection, its_id, error_info=error)
    ended = {"operation": "NONE", "op_started_at": None, "error_info": error}
    assert update(connection, its_id, **ended) == 1


def test_archiving_does_not_complete_without_its_archive(connection: Connection, its_id: UUID) -> None:
    """WS-11, WS-12: an older archive is not enough."""
    assume(connection, "dpp_workspace_reconciler")
    op_id = uuid4()
    older = archive_key_of(its_id, uuid4())
    begun = {"operation": "ARCHIVING", "op_id": op_id, "op_started_at": "2026-01-01", "archive_key": older}
    update(connection, its_id, **begun)
    with pytest.raises(psycopg.errors.CheckViolation, match="without its archive"), connection.transaction():
        update(connection, its_id, operation="NONE", op_started_at=None)
    own = archive_key_of(its_id, op_id)
    assert update(connection, its_id, operation="NONE", op_started_at=None, archive_key=own) == 1


@pytest.mark.parametrize("key", ["home.tar.zst", archive_key_of(OP, OP), "../x/y/home.tar.zst"])
def test_archive_key_of_another_workspace_is_refused(connection: Connection, its_id: UUID, key: str) -> None:
    """WS-10: `{workspace}/{op}/home.tar.zst`."""
    assume(connection, "dpp_workspace_reconciler")
    with pytest.raises(psycopg.errors.CheckViolation):
        update(connection, its_id, archive_key=key)


@pytest.mark.parametrize(
    ("phase", "operation", "allowed"),
    [
        ("PENDING", "NONE", True),
        ("ARCHIVED", "NONE", True),
        ("ERROR", "NONE", True),
        ("STANDBY", "NONE", False),
        ("RUNNING", "NONE", False),
        ("PENDING", "PROVISIONING", False),
        ("ARCHIVED", "RESTORING", False),
        ("ERROR", "STARTING", False),
    ],
)
def test_deletion_is_possible_only_in_the_documents_phases(
    connection: Connection, its_id: UUID, phase: str, operation: str, allowed: bool
) -> None:
    """003 §5, "삭제 조건" (WS-8)."""
    there: dict[str, dict[str, bool]] = {
        "PENDING": {},
        "ERROR": {"policy.healthy": False},
        "ARCHIVED": {"storage.archive_ready": True},
    }
    observed = there.get(phase, {"storage.volume_ready": True})
    if phase == "RUNNING":
        observed = observed | {"infra.process.container_ready": True}
    conditions = {name: _condition(status) for name, status in observed.items()}
    assume(connection, "dpp_workspace_monitor")
    update(connection, its_id, conditions=json.dumps(conditions), phase=phase, observed_at="2026-01-01")
    assume(connection, "dpp_workspace_reconciler")
    if operation != "NONE":
        update(connection, its_id, operation=operation, op_id=uuid4(), op_started_at="2026-01-01")
    assume(connection, "dpp_workspace_api")
    deleted = {"desired_state": "DELETED", "deleted_at": "2026-01-02"}
    if allowed:
        assert update(connection, its_id, **deleted) == 1
        with pytest.raises(psycopg.errors.CheckViolation, match="never changes"):
            update(connection, its_id, name="another")
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match="not deleted from"):
            update(connection, its_id, **deleted)


def test_desired_state_deleted_and_deleted_at_are_set_together(connection: Connection, its_id: UUID) -> None:
    """003 §3."""
    assume(connection, "dpp_workspace_api")
    for wrong in ({"desired_state": "DELETED"}, {"deleted_at": "2026-01-01"}):
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            update(connection, its_id, **wrong)
