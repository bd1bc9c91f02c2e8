"""Postgres: one connection per container, opened at its first use, pinged after a pause, reopened when lost.

Every statement is its own transaction (autocommit) unless the caller opens `connection.transaction()`. Nothing is set
on the session, so that RDS Proxy can share connections.

The statements of a run are prepared (`prepare=True`), which saves a third of Postgres's work for a run. Other
statements are not, so that scans are planned for their actual values. RDS Proxy shares connections whose statements are
prepared by the protocol, as psycopg does, but not a connection on which `DEALLOCATE` was sent, as psycopg does after a
ROLLBACK (psycopg issue 1105). So requests and workers, which have many connections, never use a transaction together
with prepared statements.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Concatenate, LiteralString

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow, dict_row

from dpp.platform.config import ConfigurationError, DatabaseAddress, DatabaseBySecret
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable, SecretUnavailable

type Connection = psycopg.Connection[TupleRow]

_CONNECT_TIMEOUT_SECONDS = 3
_PING_AFTER_IDLE_SECONDS = 5.0
_DEAD_PEER_MILLISECONDS = 5_000
# A server that refuses writes was the primary before a failover: it answers pings, but the connection must be dropped.
# A server that does not know a prepared statement is a different server, behind the same address.
_LOST = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InvalidSqlStatementName,
)
REPLY_TIMEOUT_SECONDS = 5.0
_NO_AUTOMATIC_PREPARE = sys.maxsize  # None would disable `prepare=True`, too


def named_rows(
    connection: Connection, query: LiteralString, params: Mapping[str, object], *, prepare: bool = False
) -> list[dict[str, Any]]:
    """Execute a statement and return its rows as dicts by column name.

    `prepare` only a statement that lists its columns: Postgres rejects a prepared one whose columns have changed.
    """
    cursor = connection.execute(query, params, prepare=prepare)
    by_name = dict_row(cursor)  # reads the names alone; `cursor.description` costs three times as much
    return [by_name(row) for row in cursor]


@contextmanager
def one_snapshot(connection: Connection) -> Iterator[None]:
    """A read-only transaction on one snapshot, unaffected by concurrent deletes.

    It must be the outermost transaction: Postgres rejects it inside another one.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class _Connection(psycopg.Connection[TupleRow]):
    """A connection with a timeout for replies: a server that accepted a statement and then fell silent counts as lost.

    libpq has no such timeout, and one set on the session would pin a connection of RDS Proxy.
    """

    reply_timeout_seconds = REPLY_TIMEOUT_SECONDS

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        return super().wait(gen, interval, self.reply_timeout_seconds if timeout is None else timeout)


class Database:
    """The container's connection. Not thread-safe. No statement may take more than 5 s."""

    def __init__(
        self,
        address: DatabaseAddress,
        *,
        wall_clock: Callable[[], float] = time.time,
        reply_timeout_seconds: float = REPLY_TIMEOUT_SECONDS,
    ) -> None:
        self._address = address
        self._reply_timeout_seconds = reply_timeout_seconds
        self._wall_clock = wall_clock
        self._connection: Connection | None = None
        self._last_used = 0.0

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """The connection, checked within the last 5 s.

        Raises PostgresNotReached if none can be opened (nothing was sent), and turns the loss of the connection inside
        the block into PostgresUnavailable (what was sent may have taken effect).
        """
        connection = self._live_connection()
        try:
            yield connection
        except _LOST as error:
            self.close()
            raise PostgresUnavailable(type(error).__name__) from error
        self._last_used = self._wall_clock()

    def using[**P, R](self, use: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `use` with the connection, which it may not keep. Raises like `connection`."""
        with self.connection() as connection:
            return use(connection, *args, **kwargs)

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _live_connection(self) -> Connection:
        if self._connection is not None and not self._connection.closed:
            idle = abs(self._wall_clock() - self._last_used)
            if idle < _PING_AFTER_IDLE_SECONDS or self._answers(self._connection):
                return self._connection
            self.close()
        connection = self._opened()
        connection.reply_timeout_seconds = self._reply_timeout_seconds
        self._connection = connection
        return connection

    def _opened(self) -> _Connection:
        """Open a connection; if the password is refused, fetch the current one and try again."""
        try:
            conninfo = conninfo_of(self._address)
            try:
                return _open(conninfo)
            except psycopg.OperationalError as refused:
                renewed = _renewed_conninfo(self._address, refused)
                if renewed is None or renewed == conninfo:
                    raise
                return _open(renewed)
        except (psycopg.OperationalError, SecretUnavailable) as error:
            raise PostgresNotReached(type(error).__name__) from error

    @staticmethod
    def _answers(connection: Connection) -> bool:
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True


def _open(conninfo: str) -> _Connection:
    try:
        return _Connection.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=_NO_AUTOMATIC_PREPARE,
            connect_timeout=_CONNECT_TIMEOUT_SECONDS,
            tcp_user_timeout=_DEAD_PEER_MILLISECONDS,
        )
    except psycopg.ProgrammingError:  # its message quotes the URL, password included
        raise ConfigurationError("DATABASE_URL: not a valid URL; percent-encode special characters") from None


def conninfo_of(address: DatabaseAddress, *, renewed: bool = False) -> str:
    """The connection string; `renewed` fetches the secret again. Raises SecretUnavailable, ConfigurationError."""
    if isinstance(address, str):
        return address
    from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, not needed with a URL

    secret = secrets.shared(address.secret_arn)
    fields = secret.renewed() if renewed else secret.current()
    return make_conninfo(
        host=address.host,
        port=address.port,
        dbname=address.name,
        user=secrets.field(fields, "username"),
        password=secrets.field(fields, "password"),
        sslmode=address.sslmode,
        **_authorities(address),
    )


def _authorities(address: DatabaseBySecret) -> dict[str, str]:
    if address.sslmode != "verify-full":
        return {}
    import certifi  # noqa: PLC0415 - libpq's default path is that of the machine that built its wheel

    return {"sslrootcert": certifi.where()}


def _renewed_conninfo(address: DatabaseAddress, refused: psycopg.OperationalError) -> str | None:
    """The connection string after a rotation; None if no password was requested, so that none can be wrong.

    libpq has no SQLSTATE for a refused connection, and every proxy words its refusal differently.
    """
    attempt = refused.pgconn
    if isinstance(address, str) or attempt is None or not attempt.used_password:
        return None
    return conninfo_of(address, renewed=True)
