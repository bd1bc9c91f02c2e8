"""Postgres: one connection a container, opened late, pinged after a pause, opened anew when lost.

Every statement stands alone (autocommit) unless the caller opens `connection.transaction()`. Nothing is
prepared and nothing is set on the session, so that RDS Proxy can share connections.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.rows import TupleRow

from dpp.platform.errors import PostgresNotReached, PostgresUnavailable

type Connection = psycopg.Connection[TupleRow]

_CONNECT_TIMEOUT_SECONDS = 3
_PING_AFTER_IDLE_SECONDS = 5.0
_DEAD_PEER_MILLISECONDS = 5_000
# A server that refuses to write was the primary before a failover: it answers every ping, and must be left.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
REPLY_TIMEOUT_SECONDS = 5.0


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
        url: str,
        *,
        wall_clock: Callable[[], float] = time.time,
        reply_timeout_seconds: float = REPLY_TIMEOUT_SECONDS,
    ) -> None:
        self._url = url
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
        try:
            connection = _Connection.connect(
                self._url,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                tcp_user_timeout=_DEAD_PEER_MILLISECONDS,
            )
        except psycopg.OperationalError as error:
            raise PostgresNotReached(type(error).__name__) from error
        connection.reply_timeout_seconds = self._reply_timeout_seconds
        self._connection = connection
        return connection

    @staticmethod
    def _answers(connection: Connection) -> bool:
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return True
