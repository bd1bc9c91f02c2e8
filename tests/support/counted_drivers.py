"""The platform's own adapters over drivers that count their calls: what fails, fails as the driver would have it.

So the adapters' mapping of errors, `Database.connection()`'s among them, is the real one.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.db.redis import Script
from dpp.platform.db.sql import Queries
from dpp.platform.errors import PostgresNotReached
from dpp.registered import registered
from tests.support.crash_points import Call, Killed, Points

_ROLES = {"SET LOCAL ROLE dpp_chamberlain": "act_as_chamberlain", "SET LOCAL ROLE NONE": "act_as_oneself"}
"""What dpp/platform/db/retention.py says besides named queries."""
_CONTEXTS = ("dpp.platform", "dpp.money", "dpp.runs")
_READING_COMMANDS = frozenset({"get", "time", "zrangebyscore", "hget", "hgetall", "hkeys", "ttl"})
_WRITING_LUA = ("SET'", "INCRBY'", "DECRBY'", "DEL'", "ADD'", "REM'", "EXPIRE'")


class CountedDatabase(Database):
    """A container's database; making a connection is a call, and so is each statement on it."""

    def __init__(self, url: str, points: Points) -> None:
        super().__init__(url)
        self._at = url
        self._points = points

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """The connection, its calls counted."""
        with super().connection() as connection:
            yield cast(Connection, _CountedConnection(connection, self._points, self._at))

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
        return self._points.pass_through(call)


class _CountedConnection:
    """psycopg's connection, as the stores use it."""

    def __init__(self, real: Connection, points: Points, url: str) -> None:
        self._real = real
        self._points = points
        self._url = url
        self._in_transaction = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, query: str, params: Any = None, *, prepare: bool | None = None) -> Any:
        """One statement."""

        def elsewhere() -> None:
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute(query.encode(), params)

        statement = re.sub(r"^(--.*\n)+", "", query)
        writes = not statement.startswith(("SELECT", "SET", "LOCK"))
        return self._pass(
            names_of_queries()[query],
            writes,
            lambda: self._real.execute(query.encode(), params, prepare=prepare),
            None if self._in_transaction else elsewhere,
        )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: its beginning and its end are calls, too."""
        real = psycopg.Transaction(self._real)
        self._pass("begin", False, real.__enter__)
        self._in_transaction = True
        try:
            yield
        except BaseException as error:
            if isinstance(error, Killed | psycopg.OperationalError):
                self._real.close()  # the server undoes what a lost connection began
            if real.__exit__(type(error), error, error.__traceback__):
                raise AssertionError("a rollback on demand is not used") from error
            raise
        finally:
            self._in_transaction = False

        def commit() -> None:
            real.__exit__(None, None, None)

        try:
            self._pass("commit transaction", True, commit)
        except BaseException:
            self._real.close()
            raise

    def _pass[Result](
        self, name: str, writes: bool, make: Callable[[], Result], late: Callable[[], object] | None = None
    ) -> Result:
        call = Call("postgres", name, writes, make, _postgres_lost, _postgres_overdue, late)
        return self._points.pass_through(call)


class _CountedRedis:
    """redis-py's client, which asks once more where a reply was lost."""

    def __init__(self, real: Any, points: Points) -> None:
        self._real = real
        self._points = points

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name in {"connection_pool", "close"}:
            return found

        def command(*args: Any, **kwargs: Any) -> Any:
            def make() -> Any:
                return found(*args, **kwargs)

            def lost() -> Exception:
                return RedisConnectionError("the connection was closed")

            script = names_of_scripts()[args[0]] if name == "evalsha" else None
            writes = script[1] if script else name not in _READING_COMMANDS
            call = Call(
                "redis",
                script[0] if script else name,
                writes,
                make,
                lost,
                lambda: RedisTimeoutError("timed out"),
                late=make,
                repeated=True,
            )
            return self._points.pass_through(call)

        return command


class _CountedClient:
    """boto3's client of one service."""

    def __init__(self, real: Any, points: Points, port: str) -> None:
        self._real = real
        self._points = points
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
                lambda: EndpointConnectionError(endpoint_url="nowhere"),
                lambda: ReadTimeoutError(endpoint_url="nowhere"),
                make,
            )
            return self._points.pass_through(call)

        return operation


def counted_ledger(real: Ledger, points: Points) -> Ledger:
    """A ledger whose calls are counted."""
    return Ledger(cast(Any, _CountedRedis(real.client, points)), real.keys)


def counted_queue(url: str, client: Any, points: Points) -> Queue:
    """A queue whose calls are counted."""
    return Queue(url, lambda: cast(Any, _CountedClient(client, points, "sqs")))


def counted_storage(bucket: str, client: Any, points: Points) -> ObjectStore:
    """A store whose calls are counted."""
    return ObjectStore(bucket, lambda: cast(Any, _CountedClient(client, points, "s3")))


@cache
def all_queries() -> tuple[Queries, ...]:
    """The queries of every package of the platform that has SQL files."""
    root = Path(dpp.__path__[0])
    return tuple(
        Queries(
            ".".join(("dpp", *folder.relative_to(root).parts)),
            *sorted(file.name for file in folder.glob("*.sql")),
        )
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
    """Every Lua script of the platform by the name that its module gives it."""
    for module in ("dpp.money.ledger", "dpp.runs.admission", "dpp.runs.lease"):
        import_module(module)
    ours = [module for name, module in sys.modules.items() if name.startswith(_CONTEXTS)]
    return {
        name.strip("_").lower(): value
        for module in ours
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


def _postgres_lost() -> Exception:
    return psycopg.OperationalError("server closed the connection unexpectedly")


def _postgres_overdue() -> Exception:
    # What psycopg's own wait raises, at which dpp/platform/db/postgres.py ends each reply.
    return psycopg.errors._WaitTimeout("wait timeout expired")
