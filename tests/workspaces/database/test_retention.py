"""Retention of workspaces (LIFE-8): events by week, and rows that are cleaned up."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.retention import RetentionBusy
from dpp.workspaces.retention import CLASSES
from tests.support.retention_batches import batches, deleted, named
from tests.workspaces.database.filled import fill

EVENTS, WORKSPACES = named(CLASSES, "workspace_events"), named(CLASSES, "workspaces")
_PARTS = """SELECT count(*) FROM pg_inherits WHERE inhparent = 'workspace_events'::regclass"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with closing(Database(database_url)) as database, database.connection() as opened:
        yield opened


def _count(connection: Connection, table: str) -> int:
    (row,) = connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchall()
    return int(row[0])


def _add_events(connection: Connection, at: datetime, count: int = 5) -> None:
    connection.execute(
        "INSERT INTO workspace_events (workspace_id, happened_at, actor, kind)"
        " SELECT workspace_id, %(at)s, 'test', 'CREATED' FROM workspaces ORDER BY sequence LIMIT %(count)s",
        {"at": at, "count": count},
    )


def test_old_week_of_events_is_dropped_and_the_current_one_stays(connection: Connection) -> None:
    fill(connection, workspaces=50, unsettled=0, idle=0)
    now = datetime.now(UTC)
    with connection.transaction():
        EVENTS.prepare(connection, now - timedelta(weeks=60))
    _add_events(connection, now - timedelta(weeks=60))
    with connection.transaction():
        EVENTS.prepare(connection, None)
    _add_events(connection, now)
    before = now - timedelta(days=90)
    assert EVENTS.due(connection, before, 1_000) == 5
    parts = connection.execute(_PARTS.encode()).fetchall()[0][0]
    assert deleted(connection, EVENTS, before) == 5
    assert connection.execute(_PARTS.encode()).fetchall()[0][0] < parts
    assert _count(connection, "workspace_events") == 5
    assert EVENTS.use(connection, None).rows == 5


def test_events_in_the_default_partition_are_deleted_in_batches(connection: Connection) -> None:
    """They are there if no partitions were prepared for long."""
    fill(connection, workspaces=50, unsettled=0, idle=0)
    long_ago = datetime.now(UTC) - timedelta(weeks=100)
    _add_events(connection, long_ago, 7)
    done = list(batches(connection, EVENTS, long_ago + timedelta(days=1), limit=3))
    assert sum(batch.deleted for batch in done) == 7
    assert len([batch for batch in done if batch.deleted]) == 3
    assert _count(connection, "workspace_events") == 0


def test_table_in_use_is_waited_for_briefly(connection: Connection, database_url: str) -> None:
    fill(connection, workspaces=50, unsettled=0, idle=0)
    now = datetime.now(UTC)
    with connection.transaction():
        EVENTS.prepare(connection, now - timedelta(weeks=60))
    with psycopg.connect(database_url) as other:
        other.execute("SELECT count(*) FROM workspace_events")
        with pytest.raises(RetentionBusy), connection.transaction():
            EVENTS.delete(connection, now, None, 10, None)
    assert deleted(connection, EVENTS, now - timedelta(days=1)) == 0


def test_workspace_is_deleted_once_cleaned_up_and_without_events(connection: Connection) -> None:
    fill(connection, workspaces=50, unsettled=0, idle=0)  # a tenth of them was cleaned up in the last minute
    future = datetime.now(UTC) + timedelta(days=1)
    connection.execute(
        "INSERT INTO workspace_events (workspace_id, happened_at, actor, kind)"
        " SELECT workspace_id, now(), 'test', 'CREATED' FROM workspaces WHERE cleaned_at IS NOT NULL"
        " ORDER BY sequence LIMIT 1"
    )
    assert WORKSPACES.due(connection, future, 100) == 5
    assert deleted(connection, WORKSPACES, future - timedelta(days=2)) == 0
    assert deleted(connection, WORKSPACES, future, limit=2) == 4
    assert _count(connection, "workspaces") == 46
    assert WORKSPACES.use(connection, None).rows == 46
