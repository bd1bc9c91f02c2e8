"""Authentication errors on real Postgres, with queues in memory whose clock a test sets."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg

from dpp.auth_errors import store
from dpp.auth_errors.api import read
from dpp.auth_errors.api.read import WholeAuthError
from dpp.auth_errors.api.record import Recorded, record
from dpp.auth_errors.machine import AuthErrorStatus
from dpp.auth_errors.model import AuthError, AuthErrorReport, OutboxEntry, ProcessedMessage
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import Consumed, ConsumeEffects, consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import HANDLERS, Handler
from dpp.auth_errors.outbox.message import EventMessage
from dpp.auth_errors.outbox.publish import PublishEffects, PublishReport, Waker, publish
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.money.credits import create_tenant
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from tests.support.clock import MovedClock
from tests.support.memory_sqs import MemorySqs
from tests.support.memory_sqs import Message as SentMessage
from tests.support.stored import Stored, existing

TENANT = "t_reporter"
EVENTS, DEAD_LETTERS, WAKE = (f"http://sqs.local/{name}" for name in ("events", "dead-letters", "wake"))
TRACE = """com.example.auth.TokenExpired: expired
\tat com.example.auth.TokenVerifier.verify(TokenVerifier.java:41)
\tat com.example.auth.LoginFilter.doFilter(LoginFilter.java:12)"""
OTHER_TRACE = """com.example.auth.BadSignature: no
\tat com.example.auth.Keys.check(Keys.java:7)
\tat com.example.auth.LoginFilter.doFilter(LoginFilter.java:12)"""
AT_NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
VISIBILITY_SECONDS = 150


@dataclass(slots=True)
class Environment(Stored):
    """The database, the queues and shortcuts to use them."""

    url: str
    database: Database
    clock: MovedClock
    sqs: MemorySqs
    admin: psycopg.Connection[Any]
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    handlers: dict[EventType, Handler] = field(default_factory=lambda: dict(HANDLERS))

    def queue(self, url: str) -> Queue:
        return Queue(url, lambda: cast(Any, self.sqs))

    @property
    def now(self) -> datetime:
        """The time of rows and queues."""
        return self.clock.now

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.move(seconds)

    def report(self, **changes: Any) -> AuthErrorReport:
        """A report, as the HTTP layer passes it."""
        plain = AuthErrorReport(
            request_id=f"r-{uuid4()}",
            occurred_at=AT_NOON,
            http_status=401,
            exception_class="com.example.auth.TokenExpired",
            stacktrace=TRACE,
        )
        return replace(plain, **changes)

    def record(self, reported_by: str = TENANT, **changes: Any) -> Recorded:
        waker = Waker(self.queue(WAKE))
        return record(self.report(**changes), reported_by, self.database, waker, self.now)

    def post(self, **changes: Any) -> UUID:
        """Record an error and return its id."""
        return self.record(**changes).error.auth_error_id

    def publish_effects(self, database: Database | None = None) -> PublishEffects:
        return PublishEffects(database or self.database, self.queue(EVENTS), self.policy)

    def publish(self, *, scheduled: bool = True) -> PublishReport:
        """Publish due events."""
        return publish(self.publish_effects(), self.now, scheduled=scheduled)

    def consume_effects(self, database: Database | None = None) -> ConsumeEffects:
        return ConsumeEffects(
            database or self.database, self.queue(DEAD_LETTERS), Waker(self.queue(WAKE)), self.policy, self.handlers
        )

    def consume(self, message: EventMessage) -> Consumed:
        return consume(message, self.consume_effects(), self.now)

    def deliver(self) -> list[Consumed]:
        """Consume all visible messages, as the function does."""
        events, done = self.queue(EVENTS), []
        while messages := events.receive(at_most=10, invisible_seconds=VISIBILITY_SECONDS):
            for one in messages:
                consumed = self.consume(EventMessage(one.body, one.attributes))
                done.append(consumed)
                if consumed.return_in_seconds is None:
                    events.delete(one.receipt_handle)
                else:
                    events.extend_visibility(one.receipt_handle, consumed.return_in_seconds)
        return done

    def recover(self, rounds: int = 12, seconds: float = 200) -> None:
        """Repeat: publish, deliver, pass time."""
        for _ in range(rounds):
            self.publish()
            self.deliver()
            self.pass_time(seconds)

    def run_until_idle(self) -> None:
        """Publish and deliver until nothing is due now."""
        while self.publish(scheduled=False).published + len(self.deliver()):
            pass

    def message(self, auth_error_id: UUID, event_type: EventType = EventType.RECORDED) -> EventMessage:
        """The message of an event, published or not."""
        entry = next(one for one in self.events(auth_error_id) if one.event_type is event_type)
        headers = {"outboxId": str(entry.outbox_id), "eventType": event_type.value, "aggregateType": "auth_error"}
        return EventMessage(f'{{"authErrorId": "{auth_error_id}"}}', headers)

    def error(self, auth_error_id: UUID) -> AuthError:
        return existing(self.using(store.find, auth_error_id))

    def status(self, auth_error_id: UUID) -> AuthErrorStatus:
        return self.error(auth_error_id).status

    def details(self, auth_error_id: UUID) -> WholeAuthError:
        return self.using(read.read, auth_error_id)

    def events(self, auth_error_id: UUID) -> list[OutboxEntry]:
        return self.details(auth_error_id).events

    def processed(self, auth_error_id: UUID, event_type: EventType = EventType.RECORDED) -> ProcessedMessage:
        entry = next(one for one in self.events(auth_error_id) if one.event_type is event_type)
        named = tables.EventRef(entry.outbox_id, event_type, auth_error_id)
        self.using(tables.ensure_row_exists, named, self.now)
        row = self.using(tables.processed, named)
        assert row is not None
        return row

    def dead_letters(self) -> list[SentMessage]:
        return self.sqs.of(DEAD_LETTERS)

    def rows(self, statement: str, params: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
        """The rows of a statement, as a superuser; its settings of the session end with it."""
        try:
            cursor = self.admin.execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []
        finally:
            self.admin.execute("RESET ALL")


def reasons(dead_letters: list[SentMessage]) -> list[str]:
    return [one.attributes["deadLetterReason"]["StringValue"] for one in dead_letters]


@contextmanager
def open_environment(url: str) -> Iterator[Environment]:
    """An environment on this database, with a tenant that reports; its clock starts at Postgres's time."""
    with closing(Database(url)) as database, psycopg.connect(url, autocommit=True) as admin:
        create_tenant(admin, TENANT, "A service", 60)
        clock = MovedClock(store.clock(admin))
        yield Environment(url, database, clock, MemorySqs(clock.monotonic), admin)
