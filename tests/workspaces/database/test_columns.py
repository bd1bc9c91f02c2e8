"""One writer a column, held by the database (003 §3; WS-6), and what else its schema refuses (WS-2 … WS-8)."""

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
NOBODYS = {"workspace_id", "sequence", "tenant_id", "created_at", "request_key", "request_hash"}
COMPUTED = {"idle_at"}  # by the trigger
ALL = sorted(set().union(*ROLES.values()) - COMPUTED)
type Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def workspace_id(shared_database: str) -> Iterator[tuple[str, UUID]]:
    """A workspace that somebody made."""
    with open_environment(shared_database, provider_of(MemoryProvider())) as env:
        yield shared_database, env.create()


@pytest.fixture
def connection(workspace_id: tuple[str, UUID]) -> Iterator[Connection]:
    """A transaction that is rolled back."""
    with psycopg.connect(workspace_id[0]) as opened:
        yield opened
        opened.rollback()


@pytest.fixture
def its_id(workspace_id: tuple[str, UUID]) -> UUID:
    """Its id."""
    return workspace_id[1]


def take_on(connection: Connection, role: str) -> None:
    """Act as a writer."""
    connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))


def update(connection: Connection, workspace_id: UUID, **columns: Any) -> int:
    """Set columns; how many rows changed."""
    sets = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
    )
    statement = sql.SQL("UPDATE workspaces SET {} WHERE workspace_id = {}").format(
        sets, sql.Placeholder("its_id")
    )
    return connection.execute(statement, columns | {"its_id": workspace_id}).rowcount


def test_every_column_has_one_owner_or_is_never_written_again(connection: Connection) -> None:
    """WS-6: the lists in the code are all there are."""
    found = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'workspaces'"
    )
    names = {row[0] for row in found}
    owned = [name for columns in ROLES.values() for name in columns]
    assert sorted(owned) == sorted(set(owned))
    assert names == NOBODYS | set(owned)


@pytest.mark.parametrize("column", [*ALL, *sorted(NOBODYS), *sorted(COMPUTED)])
@pytest.mark.parametrize("role", ROLES)
def test_a_second_writer_of_a_column_is_refused(
    connection: Connection, its_id: UUID, role: str, column: str
) -> None:
    """WS-6: every pair of a writer and a column."""
    take_on(connection, role)
    own = column in ROLES[role] - COMPUTED
    statement = sql.SQL("UPDATE workspaces SET {0} = {0} WHERE workspace_id = {1}").format(
        sql.Identifier(column), sql.Literal(its_id)
    )
    if own:
        assert connection.execute(statement).rowcount == 1
    else:
        refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways)
        with pytest.raises(refused):
            connection.execute(statement)


@pytest.mark.parametrize("column", [*ALL, *sorted(NOBODYS - {"sequence"})])
def test_whoever_is_none_of_the_three_writes_nothing(
    connection: Connection, its_id: UUID, column: str
) -> None:
    """WS-6: not even the owner of the table, who forgot to take on a role."""
    statement = sql.SQL("UPDATE workspaces SET {0} = {0} WHERE workspace_id = {1}").format(
        sql.Identifier(column), sql.Literal(its_id)
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="each under its role"):
        connection.execute(statement)


@pytest.mark.parametrize("role", ["dpp_workspace_monitor", "dpp_workspace_reconciler", None])
def test_the_api_alone_makes_a_workspace(connection: Connection, role: str | None) -> None:
    """WS-6."""
    if role is not None:
        take_on(connection, role)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(
            "INSERT INTO workspaces (workspace_id, tenant_id, created_at, request_key, request_hash, name,"
            " desired_state, desired_by, last_access_at)"
            f" VALUES (gen_random_uuid(), '{TENANT}', now(), 'a-key-of-ours', repeat('a', 64), 'x', 'RUNNING', 'me',"
            " now())".encode()
        )


@pytest.mark.parametrize("role", ROLES)
def test_no_writer_deletes_a_workspace_or_writes_its_history(
    connection: Connection, its_id: UUID, role: str
) -> None:
    """An event comes of a change, and of nothing else."""
    for statement in (
        "DELETE FROM workspaces",
        "INSERT INTO workspace_events (workspace_id, happened_at, actor, kind)"
        f" VALUES ('{its_id}', now(), 'me', 'CREATED')",
        "UPDATE workspace_events SET actor = 'nobody'",
        "DELETE FROM workspace_events",
        "TRUNCATE workspace_events",
    ):
        with connection.transaction(force_rollback=True):
            take_on(connection, role)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_the_history_is_append_only_for_its_owner_too(connection: Connection) -> None:
    """The trigger."""
    with pytest.raises(psycopg.Error, match="append"), connection.transaction():
        connection.execute("DELETE FROM workspace_events")


def _conditions(**changes: Any) -> str:
    plain = {
        "status": True,
        "reason": "VolumeProvisioned",
        "message": "",
        "last_transition_time": "2026-01-01T12:00:00Z",
    }
    return json.dumps({"storage.volume_ready": plain | changes})


WELL = _conditions()


def test_the_documents_own_condition_is_taken(connection: Connection, its_id: UUID) -> None:
    """003 §1, word for word (WS-2)."""
    take_on(connection, "dpp_workspace_monitor")
    assert update(connection, its_id, conditions=WELL, phase="STANDBY", observed_at="2026-01-01") == 1


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
        WELL.replace("storage.volume_ready", "volume_ready"),
        WELL.replace("storage.volume_ready", "Storage.Volume"),
    ],
)
def test_what_is_no_condition_is_refused(connection: Connection, its_id: UUID, conditions: str) -> None:
    """WS-2: status, reason, message, last_transition_time, and a name with its group."""
    take_on(connection, "dpp_workspace_monitor")
    with pytest.raises(psycopg.errors.CheckViolation):
        update(connection, its_id, conditions=conditions, phase="PENDING", observed_at="2026-01-01")


@pytest.mark.parametrize("phase", ["RUNNING", "ARCHIVED", "PENDING", "ERROR", "DELETED"])
def test_a_phase_that_the_conditions_do_not_make_is_refused(
    connection: Connection, its_id: UUID, phase: str
) -> None:
    """WS-3: the cache can't differ from what it is computed of."""
    take_on(connection, "dpp_workspace_monitor")
    with pytest.raises(psycopg.errors.CheckViolation, match="are not"):
        update(connection, its_id, conditions=WELL, phase=phase, observed_at="2026-01-01")


def test_an_older_look_is_refused(connection: Connection, its_id: UUID) -> None:
    """WS-6: a monitor that was held up."""
    take_on(connection, "dpp_workspace_monitor")
    update(connection, its_id, conditions=WELL, phase="STANDBY", observed_at="2026-01-02")
    with pytest.raises(psycopg.errors.CheckViolation, match="older"):
        update(connection, its_id, conditions=WELL, phase="STANDBY", observed_at="2026-01-01")


def test_operations_go_from_none_to_one_and_back(connection: Connection, its_id: UUID) -> None:
    """WS-7: no preemption, an id for each, and it stays."""
    take_on(connection, "dpp_workspace_reconciler")
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
        update(connection, its_id, **begun)  # under an id that was used


def test_a_terminal_error_and_an_operation_exclude_each_other(connection: Connection, its_id: UUID) -> None:
    """003 §4: one transaction does both (WS-7)."""
    take_on(connection, "dpp_workspace_reconciler")
    error = json.dumps({"reason": "Broken", "message": "", "is_terminal": True, "retry_count": 3})
    update(connection, its_id, operation="STARTING", op_id=uuid4(), op_started_at="2026-01-01")
    with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
        update(connection, its_id, error_info=error)
    ended = {"operation": "NONE", "op_started_at": None, "error_info": error}
    assert update(connection, its_id, **ended) == 1


def test_archiving_does_not_end_well_without_its_archive(connection: Connection, its_id: UUID) -> None:
    """WS-11, WS-12: an older archive is no reason to be done."""
    take_on(connection, "dpp_workspace_reconciler")
    op_id = uuid4()
    older = archive_key_of(its_id, uuid4())
    begun = {"operation": "ARCHIVING", "op_id": op_id, "op_started_at": "2026-01-01", "archive_key": older}
    update(connection, its_id, **begun)
    with pytest.raises(psycopg.errors.CheckViolation, match="without its archive"), connection.transaction():
        update(connection, its_id, operation="NONE", op_started_at=None)
    own = archive_key_of(its_id, op_id)
    assert update(connection, its_id, operation="NONE", op_started_at=None, archive_key=own) == 1


@pytest.mark.parametrize("key", ["home.tar.zst", archive_key_of(OP, OP), "../x/y/home.tar.zst"])
def test_no_archive_key_is_anothers(connection: Connection, its_id: UUID, key: str) -> None:
    """WS-10: `{workspace}/{op}/home.tar.zst`."""
    take_on(connection, "dpp_workspace_reconciler")
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
def test_a_workspace_is_deleted_from_where_the_document_says(
    connection: Connection, its_id: UUID, phase: str, operation: str, allowed: bool
) -> None:
    """003 §5, "삭제 조건" (WS-8), whoever asks."""
    there: dict[str, dict[str, bool]] = {
        "PENDING": {},
        "ERROR": {"policy.healthy": False},
        "ARCHIVED": {"storage.archive_ready": True},
    }
    seen = there.get(phase, {"storage.volume_ready": True})
    if phase == "RUNNING":
        seen = seen | {"infra.process.container_ready": True}
    conditions = {
        name: {"status": status, "reason": "R", "message": "", "last_transition_time": "2026-01-01T12:00:00Z"}
        for name, status in seen.items()
    }
    take_on(connection, "dpp_workspace_monitor")
    update(connection, its_id, conditions=json.dumps(conditions), phase=phase, observed_at="2026-01-01")
    take_on(connection, "dpp_workspace_reconciler")
    if operation != "NONE":
        update(connection, its_id, operation=operation, op_id=uuid4(), op_started_at="2026-01-01")
    take_on(connection, "dpp_workspace_api")
    deleted = {"desired_state": "DELETED", "deleted_at": "2026-01-02"}
    if allowed:
        assert update(connection, its_id, **deleted) == 1
        with pytest.raises(psycopg.errors.CheckViolation, match="never changes"):
            update(connection, its_id, name="another")
    else:
        with pytest.raises(psycopg.errors.CheckViolation, match="not deleted from"):
            update(connection, its_id, **deleted)


def test_deleted_is_wanted_and_the_other_way_round(connection: Connection, its_id: UUID) -> None:
    """003 §3: DELETED comes with deleted_at."""
    take_on(connection, "dpp_workspace_api")
    for wrong in ({"desired_state": "DELETED"}, {"deleted_at": "2026-01-01"}):
        with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
            update(connection, its_id, **wrong)
