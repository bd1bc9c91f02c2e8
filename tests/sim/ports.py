"""The faces of psycopg, redis-py and boto3 over the models: the platform's own adapters run on them unchanged.

Every call is a yield point of the scheduler, and the place where a fault may strike.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import SimpleNamespace
from typing import Any, Protocol

import psycopg
from botocore.exceptions import EndpointConnectionError
from psycopg.pq import TransactionStatus
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from tests.sim import model_money, model_postgres, model_scans, model_scripts, model_switch
from tests.sim.faults import Fault
from tests.sim.model_postgres import Answer, Tables
from tests.sim.model_redis import Keys

_REGISTERED = (model_money, model_scans, model_switch)
"""Imported for the queries that they model."""
VISIBILITY_MS = 120_000
MAX_RECEIVES = 3
_LOCK_TIMEOUT_MS = 5_000
_AT_COMMIT = (Fault.REPLY_LOST, Fault.CRASH)


class Wire(Protocol):
    """What stands between a caller and a model: time, other actors, and faults."""

    def call[Result](
        self,
        port: str,
        operation: str,
        effect: Callable[[], Result],
        failure: Callable[[], Exception],
        only: Sequence[Fault] | None = None,
    ) -> Result:
        """Make one call; raises `failure` where the caller is to see it fail."""

    def wait(self, milliseconds: int, ready: Callable[[], bool]) -> bool:
        """Wait for a lock, or for nothing; whether it is free."""

    def strikes(self, fault: Fault) -> bool:
        """Whether this fault befalls the call under way."""

    def delay_ms(self) -> int:
        """How late a delayed message is."""

    def now_ms(self) -> int:
        """The servers' clock."""

    def now(self) -> datetime:
        """The same, for Postgres."""


class Cursor:
    """The answer of one statement, read as psycopg's cursor is."""

    def __init__(self, answer: Answer) -> None:
        self._rows = iter(answer.rows)
        self._columns = answer.columns
        self.rowcount = answer.rowcount

    @property
    def description(self) -> list[SimpleNamespace]:
        """The columns."""
        return _description(self._columns)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The other rows."""
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows


class SimConnection:
    """psycopg's connection in autocommit; statements are known by their text, which is a named query's."""

    def __init__(self, wire: Wire, tables: Tables) -> None:
        self.closed = False
        self.reply_timeout_seconds = 0.0
        self.info = SimpleNamespace(transaction_status=TransactionStatus.IDLE)
        self._wire = wire
        self._tables = tables
        self._in_transaction = False

    def execute(self, sql: str, params: Any = None, *, prepare: bool | None = None) -> Cursor:
        """Run one statement, prepared or not."""
        if sql == "SELECT 1":
            return self._wire.call("postgres", "ping", lambda: Cursor(Answer(("?",), [(1,)], 1)), _pg_away)
        name, model = model_postgres.named(sql)
        if name == "mark_enqueued" and self._wire.strikes(Fault.MARK_LATE):
            self._wire.wait(self._wire.delay_ms(), lambda: False)

        def effect() -> Cursor:
            if name in model_postgres.WRITES_RUNS:
                self._await_lock("runs")
            return Cursor(model(self._tables, params, self._wire.now()))

        if self._in_transaction:  # seen by nobody before its end, so that nobody need have a turn
            lock = model_postgres.locks_taken(name, params)
            if lock is not None:
                self._await_lock(lock)
                self._tables.locks[lock] = self
            return effect()
        return self._wire.call("postgres", name, effect, _pg_away)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, done at its beginning; at its end only the reply can still be lost."""
        self._wire.call("postgres", "begin", _nothing, _pg_away)
        self._in_transaction = True
        try:
            yield
        finally:
            self._in_transaction = False
            locks = self._tables.locks
            for lock in [lock for lock, holder in locks.items() if holder is self]:
                del locks[lock]
        self._wire.call("postgres", "commit transaction", _nothing, _pg_away, _AT_COMMIT)

    def close(self) -> None:
        """Hang up."""
        self.closed = True

    def _await_lock(self, lock: str) -> None:
        """Wait for whoever holds it, for as long as a statement may wait."""
        locks = self._tables.locks
        if locks.get(lock, self) is not self and not self._wire.wait(
            _LOCK_TIMEOUT_MS, lambda: locks.get(lock, self) is self
        ):
            raise psycopg.errors.LockNotAvailable("the lock was not given up")


class SimRedis:
    """redis-py's client with its one retry of a lost call (see dpp/platform/db/redis.py)."""

    def __init__(self, wire: Wire, keys: Keys, before_write: Callable[[Sequence[str]], None]) -> None:
        self._wire = wire
        self._keys = keys
        self._before_write = before_write

    def evalsha(self, digest: str, count: int, *keys_and_args: str | int) -> list[str]:
        """Run a script by its digest."""
        if self._wire.strikes(Fault.SCRIPTS_LOST):
            raise NoScriptError("NOSCRIPT No matching script.")
        return self._run(digest, count, keys_and_args)

    def eval(self, source: str, count: int, *keys_and_args: str | int) -> list[str]:
        """Run a script by its text."""
        return self._run(model_scripts.SOURCES[source], count, keys_and_args)

    def get(self, key: str) -> str | None:
        """GET."""
        return self._twice("get", lambda: self._now().strings.get(key))

    def set(self, key: str, value: str, *, nx: bool, ex: int) -> None:
        """SET … EX, with NX."""

        def effect() -> None:
            if not (nx and self._now().exists(key)):
                self._before_write((key,))
                self._keys.set(key, value, ex * 1000)

        self._twice("set", effect)

    def time(self) -> tuple[int, int]:
        """TIME."""
        return self._twice("time", lambda: (self._now().now_ms // 1000, self._keys.now_ms % 1000 * 1000))

    def hkeys(self, key: str) -> list[str]:
        """HKEYS."""
        return self._twice("hkeys", lambda: list(self._now().hashes.get(key, {})))

    def zrangebyscore(self, key: str, _min: str, latest: int, *, start: int, num: int) -> list[str]:
        """ZRANGEBYSCORE."""
        return self._twice("zrangebyscore", lambda: self._now().zrangebyscore(key, latest, start, num))

    def delete(self, key: str) -> None:
        """DEL."""
        self._twice("del", lambda: self._now().delete(key))

    def close(self) -> None:
        """Hang up."""

    def _run(self, digest: str, count: int, keys_and_args: Sequence[str | int]) -> list[str]:
        name, model = model_scripts.SCRIPTS[digest]
        texts = [str(part) for part in keys_and_args]
        keys, args = texts[:count], texts[count:]

        def effect() -> list[str]:
            db = self._now()
            self._before_write(keys)
            return model(db, keys, args)

        return self._twice(name, effect)

    def _twice[Result](self, command: str, effect: Callable[[], Result]) -> Result:
        try:
            return self._wire.call("redis", command, effect, _redis_away)
        except RedisConnectionError:
            return self._wire.call("redis", f"{command} again", effect, _redis_away)

    def _now(self) -> Keys:
        self._keys.at(self._wire.now_ms())
        return self._keys


@dataclass(slots=True, eq=False)
class Message:
    """One message in the queue."""

    body: str
    visible_at_ms: int
    receives: int = 0
    handle: str = ""


@dataclass(slots=True)
class Messages:
    """What a queue holds, and what ended in its dead-letter queue."""

    waiting: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    receipts: int = 0

    def visible(self, now_ms: int) -> list[Message]:
        """Those that a worker may get now; the fourth receive of a message is its death (RUN-15)."""
        for message in [m for m in self.waiting if m.receives >= MAX_RECEIVES and m.visible_at_ms <= now_ms]:
            self.waiting.remove(message)
            self.dead.append(message)
        return [message for message in self.waiting if message.visible_at_ms <= now_ms]

    def receive(self, message: Message, now_ms: int) -> str:
        """Take one: invisible for 120 s; the handle by which it is deleted."""
        self.receipts += 1
        message.receives += 1
        message.visible_at_ms = now_ms + VISIBILITY_MS
        message.handle = f"receipt-{self.receipts}"
        return message.handle

    def by_handle(self, handle: str) -> Message | None:
        """The message that was received with this handle."""
        return next((message for message in self.waiting if message.handle == handle), None)


class SimSqs:
    """boto3's SQS client."""

    def __init__(self, wire: Wire, messages: Messages) -> None:
        self._wire = wire
        self._messages = messages

    def send_message(self, *, QueueUrl: str, MessageBody: str) -> None:
        """Take a message; it may get lost, doubled or late."""

        def effect() -> None:
            wire = self._wire
            if wire.strikes(Fault.MESSAGE_LOST):
                return
            for _ in range(2 if wire.strikes(Fault.MESSAGE_DOUBLED) else 1):
                late_ms = wire.delay_ms() if wire.strikes(Fault.MESSAGE_DELAYED) else 0
                self._messages.waiting.append(Message(MessageBody, wire.now_ms() + late_ms))

        self._wire.call("sqs", "send", effect, _sqs_away)

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:
        """Keep a message invisible."""

        def effect() -> None:
            message = self._messages.by_handle(ReceiptHandle)
            if message is not None:
                message.visible_at_ms = self._wire.now_ms() + VisibilityTimeout * 1000

        self._wire.call("sqs", "extend visibility", effect, _sqs_away)

    def delete_message(self, handle: str) -> None:
        """Acknowledge; at least once means that it may come again all the same."""

        def effect() -> None:
            message = self._messages.by_handle(handle)
            if message is not None and not self._wire.strikes(Fault.MESSAGE_DOUBLED):
                self._messages.waiting.remove(message)

        self._wire.call("sqs", "delete", effect, _sqs_away)


class _NoSuchKey(Exception):
    """What S3 answers for no object."""


class SimS3:
    """boto3's S3 client, one bucket."""

    exceptions = SimpleNamespace(NoSuchKey=_NoSuchKey)

    def __init__(self, wire: Wire, objects: dict[str, bytes]) -> None:
        self._wire = wire
        self._objects = objects

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: str) -> None:
        """Write an object."""
        self._wire.call("s3", "put", lambda: self._objects.__setitem__(Key, Body), _s3_away)

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, io.BytesIO]:
        """Read an object."""
        body = self._wire.call("s3", "get", lambda: self._objects.get(Key), _s3_away)
        if body is None:
            raise _NoSuchKey
        return {"Body": io.BytesIO(body)}


@cache
def _description(columns: tuple[str, ...]) -> list[SimpleNamespace]:
    return [SimpleNamespace(name=name) for name in columns]


def _nothing() -> None:
    """Neither statement nor effect."""


def _pg_away() -> Exception:
    return psycopg.OperationalError("the simulation's postgres is away")


def _redis_away() -> Exception:
    return RedisConnectionError("the simulation's redis is away")


def _sqs_away() -> Exception:
    return EndpointConnectionError(endpoint_url="sqs.sim")


def _s3_away() -> Exception:
    return EndpointConnectionError(endpoint_url="s3.sim")
