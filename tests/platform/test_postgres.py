"""The container's connection (D1, PLAT-2; issue 3: Postgres down at each step)."""

from collections.abc import Iterator

import psycopg
import pytest

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable
from dpp_cli.local.servers import HOST, free_port
from tests.support.databases import ADMIN

pytestmark = pytest.mark.usefixtures("own_sessions")


class _Clock:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _Clock:
    """The database's clock, so that no test sleeps."""
    return _Clock()


@pytest.fixture
def database(database_url: str, clock: _Clock) -> Iterator[Database]:
    """The database under test."""
    opened = Database(database_url, wall_clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def other(database_url: str) -> Iterator[Connection]:
    """A second connection, to act on the server."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        opened.execute("CREATE TABLE marks (mark text)")
        yield opened


def _pid(database: Database) -> int:
    with database.connection() as connection:
        return connection.info.backend_pid


def _kill(other: Connection, pid: int) -> None:
    """Terminate a backend, and wait until it has ended."""
    assert other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)


def _marks(other: Connection) -> list[str]:
    return [row[0] for row in other.execute("SELECT mark FROM marks ORDER BY mark")]


def test_one_connection_serves_a_container(database: Database, clock: _Clock) -> None:
    """PLAT-2: also after a long pause, which costs one ping."""
    first = _pid(database)
    clock.seconds += 3_600
    assert _pid(database) == first


def test_nothing_is_opened_before_the_first_use(other: Connection, database: Database) -> None:
    """A cold start does not pay for an unused connection."""
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> %s"
    assert other.execute(count, [ADMIN]).fetchone() == (1,)
    _pid(database)
    assert other.execute(count, [ADMIN]).fetchone() == (2,)


def test_each_statement_is_its_own_transaction_and_not_prepared(database: Database, other: Connection) -> None:
    """PLAT-2: RDS Proxy pins a session that prepares or sets anything."""
    with database.connection() as connection:
        for number in range(10):
            connection.execute("INSERT INTO marks VALUES (%s)", (f"mark {number}",))
        assert len(_marks(other)) == 10
        assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


@pytest.mark.parametrize("moved", [5.0, 3_600.0, -3_600.0])
def test_a_connection_dropped_while_idle_is_replaced_transparently(
    database: Database, other: Connection, clock: _Clock, moved: float
) -> None:
    """Issue 3: after 5 s of idling it is pinged first, whichever way the clock moved."""
    first = _pid(database)
    _kill(other, first)
    clock.seconds += moved
    assert _pid(database) != first


def test_a_connection_dropped_within_five_seconds_costs_one_typed_error(
    database: Database, other: Connection, clock: _Clock
) -> None:
    """Issue 3: the statement may have taken effect, so it is not repeated; the next use works."""
    first = _pid(database)
    _kill(other, first)
    clock.seconds += 4.9
    with pytest.raises(PostgresUnavailable) as lost, database.connection() as connection:
        connection.execute("SELECT 1")
    assert not isinstance(lost.value, PostgresNotReached)
    assert _pid(database) != first


def test_a_connection_that_dies_inside_the_block_is_unavailable_and_no_statement_runs_again(
    database: Database, other: Connection
) -> None:
    """Issue 3: the mark is written once."""

    def mark_and_die() -> None:
        with database.connection() as connection:
            connection.execute("INSERT INTO marks VALUES ('once')")
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(PostgresUnavailable) as lost:
        mark_and_die()
    assert not isinstance(lost.value, PostgresNotReached)
    assert _marks(other) == ["once"]
    with database.connection() as connection:
        connection.execute("INSERT INTO marks VALUES ('then')")
    assert _marks(other) == ["once", "then"]


def test_an_interrupted_transaction_leaves_nothing(database: Database, other: Connection) -> None:
    """D2: all or nothing."""

    def mark_and_die() -> None:
        with database.connection() as connection, connection.transaction():
            connection.execute("INSERT INTO marks VALUES ('never')")
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(PostgresUnavailable):
        mark_and_die()
    assert _marks(other) == []


def test_a_connection_to_a_former_primary_is_dropped(database: Database, database_url: str, other: Connection) -> None:
    """PLAT-2: after a failover it answers pings but refuses writes; keeping it would fail forever."""
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    demote = psycopg.sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
    target = psycopg.sql.Identifier(str(name))
    other.execute(demote.format(target, psycopg.sql.Literal("on")))
    with pytest.raises(PostgresUnavailable), database.connection() as connection:
        connection.execute("INSERT INTO marks VALUES ('refused')")
    other.execute(demote.format(target, psycopg.sql.Literal("off")))
    with database.connection() as connection:
        connection.execute("INSERT INTO marks VALUES ('taken')")
    assert _marks(other) == ["taken"]


def test_a_closed_port_is_not_reached_and_the_password_is_not_quoted() -> None:
    """Issue 3: nothing was sent, so nothing took effect; RUN-31."""
    database = Database(f"postgresql://dpp:hunter2@{HOST}:{free_port()}/dpp")
    with pytest.raises(PostgresNotReached) as refused, database.connection():
        pytest.fail("there is no connection to work on")
    assert "hunter2" not in str(refused.value)
    database.close()


def test_a_missing_database_is_not_reached(database_url: str) -> None:
    """Issue 3: the server refuses the connection before any statement."""
    database = Database(f"{database_url}x")
    with pytest.raises(PostgresNotReached), database.connection():
        pytest.fail("there is no connection to work on")


def test_an_error_of_a_statement_passes_through_and_keeps_the_connection(database: Database, other: Connection) -> None:
    """Errors: only the loss of the connection is converted."""
    first = _pid(database)
    with pytest.raises(psycopg.errors.UndefinedTable), database.connection() as connection:
        connection.execute("SELECT * FROM nowhere")
    with pytest.raises(KeyError), database.connection():
        raise KeyError("the caller's own")
    assert _pid(database) == first


def test_a_failed_transaction_leaves_a_usable_connection(database: Database, other: Connection) -> None:
    """D2: the caller's exception rolls back, and the next use starts a new transaction."""

    def mark_and_fail() -> None:
        with database.connection() as connection, connection.transaction():
            connection.execute("INSERT INTO marks VALUES ('never')")
            raise KeyError("the caller's own")

    with pytest.raises(KeyError):
        mark_and_fail()
    with database.connection() as connection:
        connection.execute("INSERT INTO marks VALUES ('kept')")
    assert _marks(other) == ["kept"]


def test_a_silent_server_is_given_up(database_url: str, other: Connection) -> None:
    """Issue 3: a statement that takes too long counts as lost; here, one that waits for a lock."""
    database = Database(database_url, reply_timeout_seconds=0.2)
    with other.transaction():
        other.execute("LOCK TABLE marks")
        with pytest.raises(PostgresUnavailable), database.connection() as connection:
            connection.execute("SELECT * FROM marks")
    database.close()


def test_closing_twice_or_before_opening_has_no_effect(database: Database) -> None:
    """A closed database opens again."""
    database.close()
    first = _pid(database)
    database.close()
    database.close()
    assert _pid(database) != first
