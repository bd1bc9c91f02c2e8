"""The platform's own adapters over drivers whose calls pass a fault injector: what fails, fails as the driver would.

So the mapping of errors in the adapters is the real one.
"""

import re
import sys
from collections.abc import Callable, Iterator, Set
from contextlib import closing, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import psycopg
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

import dpp
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.lifecycle.retention.periods import Retention
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Connection, Database, _Connection
from dpp.platform.db.redis import Script
from dpp.platform.db.sql import Queries
from dpp.platform.errors import PostgresNotReached
from dpp.registered import registered
from tests.support.crash_points import Call, FaultInjector
from tests.support.sessions import SESSIONS

_ROLES = {"SET LOCAL ROLE dpp_chamberlain": "act_as_chamberlain", "SET LOCAL ROLE NONE": "act_as_oneself"}
"""The statements of dpp/platform/db/retention.py that are no named queries."""
_READING_COMMANDS = frozenset({"get", "time", "zrangebyscore", "hget", "hgetall", "hkeys", "ttl"})
_WRITING_LUA = ("SET'", "INCRBY'", "DECRBY'", "DEL'", "ADD'", "REM'", "EXPIRE'")


class SharedSessions(Database):
    """A database whose sessions serve one process after the other."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._url = url

    def close(self) -> None:
        """End the process's use of its session."""
        if self._connection is not None:
            SESSIONS.give_back(self._url, cast(_Connection, self._connection))
            self._connection = None

    def _opened(self) -> _Connection:
        return SESSIONS.take(self._url, super()._opened)


@contextmanager
def crashable_database(url: str, injector: FaultInjector) -> Iterator[Database]:
    """The database of a process, closed when the process ends."""
    with closing(CrashableDatabase(url, injector)) as database:
        yield database


class CrashableDatabase(SharedSessions):
    """A database for which connecting is a call, and so is each statement."""

    def __init__(self, url: str, injector: FaultInjector) -> None:
        super().__init__(url)
        self._injector = injector

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """The connection, each of its calls through the injector."""
        with super().connection() as connection:
            yield cast(Connection, _CrashableConnection(connection, self._injector, self._url))

    def _live_connection(self) -> Connection:
        if self._connection is not None and not self._connection.closed:
            return super()._live_connection()
        call = Call(
            "postgres",
            "connect",
            writes=False,
            make=super()._live_connection,
            lost=lambda: PostgresNotReached("OperationalError"),
            overdue=lambda: PostgresNotReached("ConnectionTimeout"),
        )
        return self._injector.pass_through(call)


class _CrashableConnection:
    """psycopg's connection, as the stores use it."""

    def __init__(self, real: Connection, injector: FaultInjector, url: str) -> None:
        self._real = real
        self._injector = injector
        self._url = url
        self._in_transaction = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, query: str, params: Any = None, *, prepare: bool | None = None) -> Any:
        """One statement."""

        def late() -> None:
            with closing(SharedSessions(self._url)) as database, database.connection() as connection:
                connection.execute(query.encode(), params)

        statement = re.sub(r"^(--.*\n)+", "", query)
        writes = not statement.startswith(("SELECT", "SET", "LOCK"))
        return self._pass(
            names_of_queries()[query],
            writes,
            lambda: self._real.execute(query.encode(), params, prepare=prepare),
            None if self._in_transaction else late,
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, whose begin and commit are calls, too."""
        real = psycopg.Transaction(self._real)
        self._pass("begin", False, real.__enter__)
        self._in_transaction = True
        try:
            yield
        except BaseException as error:
            if real.__exit__(type(error), error, error.__traceback__):
                raise AssertionError("a rollback on demand is not used") from error
            raise
        finally:
            self._in_transaction = False
        try:
            self._pass("commit transaction", True, lambda: real.__exit__(None, None, None))
        except BaseException as error:
            if real.status is psycopg.Transaction.Status.ACTIVE:  # the server rolls back what a lost connection began
                real.__exit__(type(error), error, error.__traceback__)
            raise

    def _pass[Result](
        self, name: str, writes: bool, make: Callable[[], Result], late: Callable[[], object] | None = None
    ) -> Result:
        call = Call(
            "postgres",
            name,
            writes,
            make,
            lost=lambda: psycopg.OperationalError("server closed the connection unexpectedly"),
            # Raised by psycopg's own wait, with which dpp/platform/db/postgres.py limits each reply.
            overdue=lambda: psycopg.errors._WaitTimeout("wait timeout expired"),
            late=late,
            in_transaction=self._in_transaction,
        )
        return self._injector.pass_through(call)


class CrashablePort:
    """Any port whose methods are calls; those in `reads` have no effect, and values are handed on as they are."""

    def __init__(
        self,
        real: Any,
        injector: FaultInjector,
        port: str,
        error: Callable[[], Exception],
        reads: Set[str] = frozenset(),
    ) -> None:
        self._real = real
        self._injector = injector
        self._port = port
        self._error = error
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self.call(name, lambda: found(*args, **kwargs))

    def call(self, name: str, make: Callable[[], Any], late: Callable[[], Any] | None = None) -> Any:
        """Make one call; `late` instead of `make`, where it takes effect after its process has ended."""
        writes = name not in self._reads
        after = (late or make) if writes else None
        return self._injector.pass_through(Call(self._port, name, writes, make, self._error, self._error, after))


class _CrashableRedis:
    """redis-py's client, which sends a command again where its reply was lost."""

    def __init__(self, real: Any, injector: FaultInjector) -> None:
        self._real = real
        self._injector = injector

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name in {"connection_pool", "close"}:
            return found

        def command(*args: Any, **kwargs: Any) -> Any:
            def make() -> Any:
                return found(*args, **kwargs)

            script = names_of_scripts()[args[0]] if name == "evalsha" else None
            call = Call(
                "redis",
                script[0] if script else name,
                script[1] if script else name not in _READING_COMMANDS,
                make,
                lost=lambda: RedisConnectionError("the connection was closed"),
                overdue=lambda: RedisTimeoutError("timed out"),
                late=make,
                repeated=True,
            )
            return self._injector.pass_through(call)

        return command


class _CrashableClient:
    """boto3's client of one service."""

    def __init__(self, real: Any, injector: FaultInjector, port: str) -> None:
        self._real = real
        self._injector = injector
        self._port = port

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name == "exceptions":
            return found

        def operation(**kwargs: Any) -> Any:
            def make() -> Any:
                return found(**kwargs)

            call = Call(
                self._port,
                name,
                not name.startswith(("get_", "head_", "list_")),
                make,
                lost=lambda: EndpointConnectionError(endpoint_url="nowhere"),
                overdue=lambda: ReadTimeoutError(endpoint_url="nowhere"),
                late=make,
            )
            return self._injector.pass_through(call)

        return operation


def crashable_ledger(real: Ledger, injector: FaultInjector) -> Ledger:
    """The same ledger, each call through the injector."""
    return Ledger(cast(Any, _CrashableRedis(real.client, injector)), real.keys)


def crashable_queue(url: str, client: Any, injector: FaultInjector) -> Queue:
    """A queue of this client, each call through the injector."""
    return Queue(url, lambda: cast(Any, _CrashableClient(client, injector, "sqs")))


def crashable_storage(bucket: str, client: Any, injector: FaultInjector) -> ObjectStore:
    """A bucket of this client, each call through the injector."""
    return ObjectStore(bucket, lambda: cast(Any, _CrashableClient(client, injector, "s3")))


@cache
def all_queries() -> tuple[Queries, ...]:
    """The queries of every package of the platform that has SQL files."""
    root = Path(dpp.__path__[0])
    return tuple(
        Queries(".".join(("dpp", *folder.relative_to(root).parts)), *sorted(file.name for file in folder.glob("*.sql")))
        for folder in sorted({file.parent for file in root.rglob("*.sql")})
    )


@cache
def names_of_queries() -> dict[str, str]:
    """The name of every query of the platform, by its text."""
    composed = registered(Retention(), RetryPolicy().max_retries)
    return (
        _ROLES
        | {queries[name]: name for queries in all_queries() for name in queries.names()}
        | {text: name for one in composed for name, text in one.statements.items()}
    )


@cache
def scripts() -> dict[str, Script]:
    """Every Lua script of the platform, by the name that its module gives it."""
    for module in ("dpp.money.ledger", "dpp.runs.admission", "dpp.runs.lease"):
        import_module(module)
    prefixes = ("dpp.platform", "dpp.money", "dpp.runs")
    modules = [module for name, module in sys.modules.items() if name.startswith(prefixes)]
    return {
        name.strip("_").lower(): value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Script)
    }


@cache
def names_of_scripts() -> dict[str, tuple[str, bool]]:
    """Every script by its digest: its name, and whether it can write."""
    return {
        script.sha1: (name, any(command in script.source for command in _WRITING_LUA))
        for name, script in scripts().items()
    }
