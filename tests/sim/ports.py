"""Stand-ins for the drivers (psycopg, redis-py, boto3), on which the platform's own adapters run unchanged.

Every call lets other actors run first, and is a place where a fault can strike.
"""

import io
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from types import SimpleNamespace
from typing import Any

import psycopg
from botocore.exceptions import EndpointConnectionError
from psycopg.pq import ExecStatus, TransactionStatus
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError

from dpp.money import ledger
from dpp.platform.db.redis import Script
from dpp.runs import admission, lease
from tests.sim import database
from tests.sim.database import Answer, Database
from tests.sim.faults import Fault
from tests.sim.keys import Keys
from tests.sim.lua import run_script

VISIBILITY_MS = 120_000
MAX_RECEIVES = 3
_LOCK_TIMEOUT_MS = 5_000
_AT_COMMIT = (Fault.REPLY_LOST, Fault.CRASH)
_SCRIPTS = {
    script.sha1: (name.strip("_").lower(), script.source)
    for module in (ledger, admission, lease)
    for name, script in vars(module).items()
    if isinstance(script, Script)
}
"""Digest -> a script's name and source."""


AWAY: Mapping[str, Callable[[], Exception]] = {
    "postgres": lambda: psycopg.OperationalError("the simulated Postgres is away"),
    "redis": lambda: RedisConnectionError("the simulated Redis is away"),
    "sqs": lambda: EndpointConnectionError(endpoint_url="sqs.sim"),
    "s3": lambda: EndpointConnectionError(endpoint_url="s3.sim"),
}
"""Port -> the driver's error for a server that is away."""


class Wire:
    """The connection between a caller and a server. A simulation overrides it to pass time and to inject faults."""

    def call[Result](
        self, _port: str, _operation: str, effect: Callable[[], Result], _only: Sequence[Fault] | None = None
    ) -> Result:
        """Make one call. Raises the port's error of `AWAY` if a fault makes the caller see one."""
        return effect()

    def wait(self, _milliseconds: int, ready: Callable[[], bool]) -> bool:
        """Wait until `ready`, for some milliseconds at most; the last value of `ready`."""
        return ready()

    def strikes(self, _fault: Fault) -> bool:
        """Decide if this fault strikes the current call."""
        return False

    def delay_ms(self) -> int:
        return 0

    def now_ms(self) -> int:
        """The servers' clock."""
        return int(time.time() * 1000)

    def now(self) -> datetime:
        """The servers' clock, as Postgres reads it."""
        return datetime.now(UTC)


class Cursor:
    """The result of one statement, with psycopg's interface."""

    def __init__(self, answer: Answer) -> None:
        self._rows = iter(answer.rows)
        self.pgresult = _result(answer.columns)
        self._encoding = "utf-8"
        self.rowcount = answer.rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows


class SimConnection:
    """psycopg's connection in autocommit mode."""

    def __init__(self, wire: Wire, tables: Database) -> None:
        self.closed = False
        self.reply_timeout_seconds = 0.0
        self.info = SimpleNamespace(transaction_status=TransactionStatus.IDLE)
        self._wire = wire
        self._database = tables
        self._in_transaction = False

    def execute(self, sql: str, params: Any = None, *, prepare: bool | None = None) -> Cursor:
        if sql == "SELECT 1":
            return self._wire.call("postgres", "ping", lambda: Cursor(Answer(("?",), [(1,)], 1)))
        name = database.name_of(sql)
        if name == "mark_enqueued" and self._wire.strikes(Fault.MARK_LATE):
            self._wire.wait(self._wire.delay_ms(), lambda: False)

        def effect() -> Cursor:
            if database.writes_runs(sql):
                self._await_lock("runs")
            return Cursor(self._database.execute(sql, params, self._wire.now()))

        if self._in_transaction:  # invisible to others until its end, so no other actor needs to run
            lock = database.locked_by(sql, params)
            if lock is not None:
                self._await_lock(lock)
                self._database.locks[lock] = self
            return effect()
        return self._wire.call("postgres", name, effect)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction. It takes effect at its beginning; only the reply can still be lost at its end."""
        self._wire.call("postgres", "begin", _nothing)
        self._in_transaction = True
        try:
            yield
        finally:
            self._in_transaction = False
            locks = self._database.locks
            for lock in [lock for lock, holder in locks.items() if holder is self]:
                del locks[lock]
        self._wire.call("postgres", "commit transaction", _nothing, _AT_COMMIT)

    def close(self) -> None:
        self.closed = True

    def _await_lock(self, lock: str) -> None:
        """Wait until no other connection holds the lock. Raises LockNotAvailable after 5 s."""
        locks = self._database.locks
        if locks.get(lock, self) is not self and not self._wire.wait(
            _LOCK_TIMEOUT_MS, lambda: locks.get(lock, self) is self
        ):
            raise psycopg.errors.LockNotAvailable("the lock was not released in time")


class SimRedis:
    """redis-py's client. It sends a failed call once more (see dpp/platform/db/redis.py)."""

    def __init__(self, wire: Wire, keys: Keys, before_write: Callable[[Sequence[str]], None]) -> None:
        self.keys = keys
        self._wire = wire
        self._before_write = before_write

    def evalsha(self, digest: str, count: int, *keys_and_args: str | int) -> list[str]:
        if self._wire.strikes(Fault.SCRIPTS_LOST):
            raise NoScriptError("NOSCRIPT No matching script.")
        name, source = _SCRIPTS[digest]
        return self._run(name, source, count, keys_and_args)

    def eval(self, source: str, count: int, *keys_and_args: str | int) -> list[str]:
        name = next((name for name, known in _SCRIPTS.values() if known == source), "eval")
        return self._run(name, source, count, keys_and_args)

    def get(self, key: str) -> Any:
        return self._command("get", key)

    def set(self, key: str, value: str, *, nx: bool, ex: int) -> None:
        self._command("set", key, value, "ex", ex, *(["nx"] if nx else []), writes=key)

    def time(self) -> tuple[int, int]:
        seconds, microseconds = self._command("time")
        return int(seconds), int(microseconds)

    def hkeys(self, key: str) -> Any:
        return self._command("hkeys", key)

    def zrangebyscore(self, key: str, low: str, high: int, *, start: int, num: int) -> Any:
        return self._command("zrangebyscore", key, low, high, "limit", start, num)

    def delete(self, key: str) -> None:
        self._command("del", key)

    def close(self) -> None:
        """Close the connection."""

    def _command(self, command: str, *args: str | int, writes: str | None = None) -> Any:
        def effect() -> Any:
            self.keys.at(self._wire.now_ms())
            if writes is not None:
                self._before_write((writes,))
            return self.keys.run(command, *args)

        return self._twice(command, effect)

    def _run(self, name: str, source: str, count: int, keys_and_args: Sequence[str | int]) -> list[str]:
        texts = [str(part) for part in keys_and_args]
        names, args = texts[:count], texts[count:]

        def effect() -> list[str]:
            self.keys.at(self._wire.now_ms())
            self._before_write(names)
            return run_script(source, self.keys, names, args)

        return self._twice(name, effect)

    def _twice[Result](self, command: str, effect: Callable[[], Result]) -> Result:
        try:
            return self._wire.call("redis", command, effect)
        except RedisConnectionError:
            return self._wire.call("redis", f"{command} again", effect)


@dataclass(slots=True, eq=False)
class Message:
    """One message in the queue."""

    body: str
    visible_at_ms: int
    receives: int = 0
    handle: str = ""


@dataclass(slots=True)
class Messages:
    """The messages of a queue and of its dead-letter queue."""

    waiting: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    receipts: int = 0

    def visible(self, now_ms: int) -> list[Message]:
        """The messages that a worker can receive now. A fourth receive makes a message a dead letter (RUN-15)."""
        for message in [m for m in self.waiting if m.receives >= MAX_RECEIVES and m.visible_at_ms <= now_ms]:
            self.waiting.remove(message)
            self.dead.append(message)
        return [message for message in self.waiting if message.visible_at_ms <= now_ms]

    def receive(self, message: Message, now_ms: int) -> str:
        """Receive a message, which is then invisible for 120 s; its receipt handle."""
        self.receipts += 1
        message.receives += 1
        message.visible_at_ms = now_ms + VISIBILITY_MS
        message.handle = f"receipt-{self.receipts}"
        return message.handle

    def by_handle(self, handle: str) -> Message | None:
        return next((message for message in self.waiting if message.handle == handle), None)


class SimSqs:
    """boto3's SQS client."""

    def __init__(self, wire: Wire, messages: Messages) -> None:
        self._wire = wire
        self._messages = messages

    def send_message(self, *, QueueUrl: str, MessageBody: str) -> None:
        """Send a message, which can get lost, doubled or delayed."""

        def effect() -> None:
            wire = self._wire
            if wire.strikes(Fault.MESSAGE_LOST):
                return
            for _ in range(2 if wire.strikes(Fault.MESSAGE_DOUBLED) else 1):
                late_ms = wire.delay_ms() if wire.strikes(Fault.MESSAGE_DELAYED) else 0
                self._messages.waiting.append(Message(MessageBody, wire.now_ms() + late_ms))

        self._wire.call("sqs", "send", effect)

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:
        def effect() -> None:
            message = self._messages.by_handle(ReceiptHandle)
            if message is not None:
                message.visible_at_ms = self._wire.now_ms() + VisibilityTimeout * 1000

        self._wire.call("sqs", "extend visibility", effect)

    def delete_message(self, handle: str) -> None:
        """Delete a message. SQS delivers at least once, so it can come again all the same."""

        def effect() -> None:
            message = self._messages.by_handle(handle)
            if message is not None and not self._wire.strikes(Fault.MESSAGE_DOUBLED):
                self._messages.waiting.remove(message)

        self._wire.call("sqs", "delete", effect)


class _NoSuchKey(Exception):
    """S3's error for a key without an object."""


class SimS3:
    """boto3's S3 client, for one bucket."""

    exceptions = SimpleNamespace(NoSuchKey=_NoSuchKey)

    def __init__(self, wire: Wire, objects: dict[str, bytes]) -> None:
        self._wire = wire
        self._objects = objects

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: str) -> None:
        self._wire.call("s3", "put", lambda: self._objects.__setitem__(Key, Body))

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, io.BytesIO]:
        body = self._wire.call("s3", "get", lambda: self._objects.get(Key))
        if body is None:
            raise _NoSuchKey
        return {"Body": io.BytesIO(body)}


@cache
def _result(columns: tuple[str, ...]) -> SimpleNamespace:
    """Return what psycopg's `dict_row` reads of a result."""
    names = [name.encode() for name in columns]
    return SimpleNamespace(status=ExecStatus.TUPLES_OK, nfields=len(names), fname=names.__getitem__)


def _nothing() -> None:
    """The effect of BEGIN and COMMIT."""
