"""Postgres: one connection a container, opened late, pinged after a pause, opened anew when lost.

Every statement stands alone (autocommit) unless the caller opens `connection.transaction()`. Nothing is set on the
session, so that RDS Proxy can share connections.

What a run needs is prepared (`prepare=True`), which spares Postgres a third of its work for a run; nothing else is, so
that scans are planned for the values at hand. RDS Proxy shares connections whose statements are prepared by the
protocol, as psycopg does it, but not one on which `DEALLOCATE` was sent, as psycopg does after a ROLLBACK
(psycopg issue 1105): requests and workers, of which there are many, open no transaction on what they prepare.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from dpp.platform.config import ConfigurationError, DatabaseAddress, DatabaseBySecret
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable, SecretUnavailable

type Connection = psycopg.Connection[TupleRow]

_CONNECT_TIMEOUT_SECONDS = 3
_PING_AFTER_IDLE_SECONDS = 5.0
_DEAD_PEER_MILLISECONDS = 5_000
# A server that refuses to write was the primary before a failover: it answers every ping, and must be left.
# One that doesn't know what was prepared on it is another than it was, whatever stands between.
_LOST = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InvalidSqlStatementName,
)
REPLY_TIMEOUT_SECONDS = 5.0
_NEVER_UNASKED = sys.maxsize  # None would refuse `prepare=True`, too


def named_rows(
    connection: Connection, query: LiteralString, params: Mapping[str, object], *, prepare: bool = False
) -> list[dict[str, Any]]:
    """What a statement answers, each row by the names of its columns.

    `prepare` one that names its columns alone: an answer of other columns than before is refused by Postgres.
    """
    cursor = connection.execute(query, params, prepare=prepare)
    names = [column.name for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor]


@contextmanager
def one_snapshot(connection: Connection) -> Iterator[None]:
    """A transaction that only reads, and all of it as it stood at one moment: what is deleted meanwhile is read whole.

    The caller's own: inside of another transaction Postgres refuses it.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


class _Connection(psycopg.Connection[TupleRow]):
    """Waits for a reply so long and no longer: a server that took a statement and fell silent is as good as lost.

    libpq knows no such limit, and a limit set on the session would pin a connection of RDS Proxy.
    """

    reply_timeout_seconds = REPLY_TIMEOUT_SECONDS

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        return super().wait(gen, interval, self.reply_timeout_seconds if timeout is None else timeout)


class Database:
    """Hands out the container's connection; not for two threads at once. No statement may take over 5 s."""

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
        """The connection, known to have lived within the last 5 s.

        Raises PostgresNotReached when none can be made (nothing was sent), and turns the loss of the
        connection inside the block into PostgresUnavailable (what was sent may have taken effect).
        """
        connection = self._live_connection()
        try:
            yield connection
        except _LOST as error:
            self.close()
            raise PostgresUnavailable(type(error).__name__) from error
        self._last_used = self._wall_clock()

    def close(self) -> None:
        """Drop the connection; the next use opens another."""
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
        """A new connection, made with the present password where the one at hand is refused."""
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
            prepare_threshold=_NEVER_UNASKED,
            connect_timeout=_CONNECT_TIMEOUT_SECONDS,
            tcp_user_timeout=_DEAD_PEER_MILLISECONDS,
        )
    except psycopg.ProgrammingError:  # it quotes what it can't read, a password among it
        raise ConfigurationError(
            "DATABASE_URL: can't be read; percent-encode what is special in it"
        ) from None


def conninfo_of(address: DatabaseAddress, *, renewed: bool = False) -> str:
    """What libpq connects with; `renewed` asks Secrets Manager anew. Raises SecretUnavailable, ConfigurationError."""
    if isinstance(address, str):
        return address
    from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, which a given URL does without

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
    import certifi  # noqa: PLC0415 - the layer's own list; libpq's default path is where its wheel was built

    return {"sslrootcert": certifi.where()}


def _renewed_conninfo(address: DatabaseAddress, refused: psycopg.OperationalError) -> str | None:
    """How to connect after a rotation; None where no password was asked for, so that none can be wrong.

    libpq tells no SQLSTATE of a refused connection, and every proxy words its refusal differently.
    """
    attempt = refused.pgconn
    if isinstance(address, str) or attempt is None or not attempt.used_password:
        return None
    return conninfo_of(address, renewed=True)
