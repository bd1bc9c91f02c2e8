"""Sessions of Postgres that serve one test after the other, and one simulated process after the other.

A new session reads the catalogue and plans its statements again, which costs as much as ten statements. A process or a
test leaves nothing behind on one: its transaction is rolled back, and its settings are reset.
"""

import atexit
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import cast

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from dpp.platform.db.postgres import Database, _Connection


class Sessions:
    """Unused sessions by their database's URL. A fork has none of its parent's."""

    def __init__(self) -> None:
        self.databases: set[str] = set()
        """Those whose sessions every `Database` of this process shares, see `share_sessions`."""
        self._unused: defaultdict[tuple[int, str], list[_Connection]] = defaultdict(list)
        atexit.register(self._close)

    def take(self, url: str, connect: Callable[[], _Connection]) -> _Connection:
        """A session that answers."""
        unused = self._unused[os.getpid(), url]
        while unused:
            try:
                connection = unused.pop()
            except IndexError:  # a thread has taken the last one
                break
            try:
                connection.execute("RESET ALL")
            except psycopg.Error:
                connection.close()
            else:
                return connection
        return connect()

    def give_back(self, url: str, connection: _Connection) -> None:
        """Keep a session without a transaction, and end any other."""
        if connection.info.transaction_status is TransactionStatus.IDLE:
            self._unused[os.getpid(), url].append(connection)
        else:
            connection.close()

    def pids(self, url: str) -> list[int]:
        """The server's processes of the unused sessions."""
        return [connection.info.backend_pid for connection in self._unused[os.getpid(), url] if not connection.closed]

    def end(self, url: str) -> None:
        """End the unused sessions of a database, and share no more of them."""
        self.databases.discard(url)
        for connection in self._unused.pop((os.getpid(), url), ()):
            connection.close()

    def _close(self) -> None:
        for connections in self._unused.values():
            for connection in connections:
                connection.close()


SESSIONS = Sessions()


def share_sessions(patch: pytest.MonkeyPatch) -> None:
    """Let every `Database` of a shared database take its session from the unused ones, and give it back when closed."""
    connect, end = Database._opened, Database.close

    def opened(database: Database) -> _Connection:
        url = database._address
        if isinstance(url, str) and url in SESSIONS.databases:
            return SESSIONS.take(url, partial(connect, database))
        return connect(database)

    def close(database: Database) -> None:
        url, connection = database._address, database._connection
        # A session is closed in the handling of an error because it is lost.
        if connection is None or sys.exception() is not None or not isinstance(url, str):
            end(database)
        elif url in SESSIONS.databases:
            SESSIONS.give_back(url, cast(_Connection, connection))
            database._connection = None
        else:
            end(database)

    patch.setattr(Database, "_opened", opened)
    patch.setattr(Database, "close", close)
