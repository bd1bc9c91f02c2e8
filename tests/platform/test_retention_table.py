"""The statements that a retention class is composed into (LIFE-8), on tables of the test's own."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from dpp.platform.db.postgres import Connection
from dpp.platform.db.retention import RetentionClass, as_chamberlain
from dpp.platform.db.retention_table import Blocker, OwnedObjects, TableClass
from tests.support.retention_batches import batches, deleted

_NOW = datetime(2026, 6, 1, tzinfo=UTC)
_OLD = _NOW - timedelta(days=30)
_SCHEMA = """
CREATE TABLE items (item_id bigint PRIMARY KEY, ended_at timestamptz, kind text, bytes bigint, object_key text);
CREATE TABLE notes (item_id bigint REFERENCES items (item_id), text text);
CREATE TABLE holds (item bigint, is_active boolean);
CREATE TABLE to_delete (object_key text PRIMARY KEY, listed_at timestamptz, next_attempt_at timestamptz);
GRANT SELECT, DELETE ON items, notes TO dpp_chamberlain;
GRANT SELECT ON holds TO dpp_chamberlain;
GRANT INSERT, SELECT ON to_delete TO dpp_chamberlain"""
ITEMS = TableClass("items", "x_days", table="items", time="ended_at", key="item_id", key_type="bigint")
_HELD = Blocker("holds", "item", where="is_active")


@pytest.fixture
def connection(connection: Connection) -> Connection:
    for statement in _SCHEMA.split(";\n"):
        connection.execute(statement.encode())
    return connection


def _add(connection: Connection, *ids: int, at: datetime | None = _OLD, kind: str = "A") -> None:
    for item_id in ids:
        connection.execute("INSERT INTO items VALUES (%s, %s, %s, 7, %s)", (item_id, at, kind, f"k{item_id}"))


def _ids(connection: Connection, table: str = "items", column: str = "item_id") -> list[Any]:
    return [row[0] for row in connection.execute(f"SELECT {column} FROM {table} ORDER BY 1".encode())]


def test_only_due_rows_of_the_class_are_deleted(connection: Connection) -> None:
    _add(connection, 1)
    _add(connection, 2, at=_NOW)
    _add(connection, 3, at=None)
    _add(connection, 4, kind="B")
    one = replace(ITEMS, where="kind = 'A'")
    assert [one.due(connection, _NOW, limit) for limit in (0, 9)] == [0, 1]
    assert deleted(connection, one, _NOW) == 1
    assert _ids(connection) == [2, 3, 4]


@pytest.mark.parametrize(("blocker", "left"), [(_HELD, [1]), (replace(_HELD, absent=True), [2, 3])])
def test_blocked_rows_are_examined_and_kept(connection: Connection, blocker: Blocker, left: list[int]) -> None:
    _add(connection, 1, 2, 3)
    connection.execute("INSERT INTO holds VALUES (1, true), (2, false)")
    one = replace(ITEMS, blocked_by=(blocker,))
    assert one.due(connection, _NOW, 9) == 3
    assert sum(batch.examined for batch in batches(connection, one, _NOW, limit=2)) == 3
    assert _ids(connection) == left
    assert one.use(connection, _NOW).oldest_at is None


def test_owned_rows_are_deleted_with_their_row_and_counted_as_bytes(connection: Connection) -> None:
    _add(connection, 1, 2)
    connection.execute("INSERT INTO notes VALUES (1, repeat('x', 900)), (2, 'y')")
    connection.execute("INSERT INTO holds VALUES (2, true)")
    one = replace(ITEMS, blocked_by=(_HELD,), owned_rows=("notes",))
    [batch] = batches(connection, one, _NOW)
    assert (batch.deleted, batch.bytes > 900) == (1, True)
    assert _ids(connection, "notes") == _ids(connection) == [2]


def test_the_keys_of_owned_objects_are_listed_and_their_sizes_counted(connection: Connection) -> None:
    _add(connection, 1, 2)
    one = replace(ITEMS, key="object_key", key_type="text", owned_objects=OwnedObjects("bytes", "to_delete"))
    assert (one.use(connection, _OLD).bytes, one.use(connection, _OLD).bytes_a_day) == (14, 14)
    assert [batch.bytes for batch in batches(connection, one, _NOW)] == [14]
    assert _ids(connection, "to_delete", "object_key") == ["k1", "k2"]


def test_rows_of_one_moment_are_deleted_in_one_batch(connection: Connection) -> None:
    _add(connection, 1, 2, 3)
    _add(connection, 4, at=_OLD + timedelta(seconds=1))
    done = batches(connection, replace(ITEMS, whole_moments=True), _NOW, limit=2)
    assert [batch.deleted for batch in done] == [3, 1]


@pytest.mark.parametrize("change", ["kind = 'B'", "ended_at = now()"])
def test_a_row_that_changes_while_the_batch_waits_for_it_is_kept(
    connection: Connection, database_url: str, change: str
) -> None:
    """The deletion checks state and time again: the row was examined in an older version."""
    _add(connection, 1, 2)
    one: RetentionClass = replace(ITEMS, where="kind = 'A'", owned_rows=("notes",))
    found: list[int] = []
    with psycopg.connect(database_url) as other:
        other.execute(f"UPDATE items SET {change} WHERE item_id = 1".encode())
        thread = threading.Thread(target=lambda: found.append(deleted(connection, one, _NOW)))
        thread.start()
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while other.execute(waiting.encode()).fetchone() is None:
            pass
    thread.join()
    assert (found, _ids(connection)) == ([1], [1])


def test_a_batch_has_no_right_but_those_of_the_role(connection: Connection) -> None:
    _add(connection, 1)
    connection.execute("REVOKE DELETE ON items FROM dpp_chamberlain")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        deleted(connection, ITEMS, _NOW)
    with connection.transaction(), as_chamberlain(connection):
        assert _ids(connection) == [1]
