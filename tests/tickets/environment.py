"""Tickets around one test: real Postgres, S3 by moto, executors that are told what to do."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import boto3
import psycopg

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.tickets import read, store
from dpp.tickets.cycle import Cycle, CycleEffects, run_cycle
from dpp.tickets.file import file
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.process import Executor, ProcessEffects, ProcessReport, process_tickets
from dpp.tickets.read import WholeTicket
from dpp.tickets.reap import Reaped, ReapEffects, ReapRequest, reap
from dpp.tickets.staleness import LATEST_KEY, Breaker, ReaperRules
from dpp.tickets.store import NewTicket

SEOUL = ZoneInfo("Asia/Seoul")
A_DAY = 86_400
RULES = ReaperRules(threshold_seconds=A_DAY, max_clean=50, breaker=Breaker(max_stale=100, max_share=0.5))


class CannedExecutor:
    """Carries out tickets as it is told, and remembers them."""

    def __init__(self) -> None:
        self.does: Callable[[Ticket], str] = lambda ticket: f"{ticket.request_type} done"
        self.carried_out: list[UUID] = []

    def __call__(self, ticket: Ticket) -> str:
        """One ticket."""
        self.carried_out.append(ticket.request_id)
        return self.does(ticket)


@dataclass(slots=True)
class Environment:
    """The parts, and short ways to use them."""

    url: str
    database: Database
    bucket: str
    s3: Any
    storage: ObjectStore
    executor: CannedExecutor = field(default_factory=CannedExecutor)

    def environ(self) -> dict[str, str]:
        """What the API function's environment holds."""
        return {"DATABASE_URL": self.url, "DPP_REPORTS_BUCKET": self.bucket}

    def new_database(self) -> Database:
        """Another connection; the caller closes it."""
        return Database(self.url)

    def reap_effects(self, storage: Any = None, zone: ZoneInfo = SEOUL) -> ReapEffects:
        """What the reaper touches."""
        return ReapEffects(self.database, storage or self.storage, zone)

    def process_effects(self, executor: Executor | None = None, rules: ReaperRules = RULES) -> ProcessEffects:
        """What processing touches: one executor for all types."""
        return ProcessEffects(self.database, dict.fromkeys(RequestType, executor or self.executor), rules)

    def cycle(self, now: datetime | None = None, storage: Any = None, **changes: Any) -> Cycle:
        """One ops cycle."""
        return run_cycle(CycleEffects(self.reap_effects(storage), self.process_effects(**changes)), now)

    def file(self, request_type: RequestType = RequestType.DLQ_REDRIVE, **changes: Any) -> Ticket:
        """A new ticket."""
        values: dict[str, Any] = {
            "request_id": uuid4(),
            "request_type": request_type,
            "params": {"limit": 10},
            "reason": "for a test",
            "requested_by": "kim",
        }
        return file(NewTicket(**values | changes), self.database).ticket

    def in_progress(self, *, silent_seconds: float = 0, **changes: Any) -> Ticket:
        """A ticket that a processor has, which has been silent since then."""
        ticket = self.file(**changes)
        then = self.now() - timedelta(seconds=silent_seconds)
        with self.database.connection() as connection, connection.transaction():
            # As if all of it had happened then; the rules of the table hold for it, too.
            connection.execute("ALTER TABLE tickets DISABLE TRIGGER tickets_follow_the_machine")
            connection.execute(
                "UPDATE tickets SET created_at = %(then)s, updated_at = %(then)s WHERE request_id = %(id)s",
                {"then": then, "id": ticket.request_id},
            )
            connection.execute("ALTER TABLE tickets ENABLE TRIGGER tickets_follow_the_machine")
            connection.execute(
                "UPDATE tickets SET current_status = 'IN_PROGRESS', processor_id = 'a-processor',"
                " moved_by = 'a-processor', attempts = 1, last_processed_at = %(then)s, updated_at = %(then)s"
                " WHERE request_id = %(id)s",
                {"then": then, "id": ticket.request_id},
            )
        return self.ticket(ticket)

    def stale(self, hours: float = 25, **changes: Any) -> Ticket:
        """A ticket whose processor has been silent for so many hours."""
        return self.in_progress(silent_seconds=hours * 3600, **changes)

    def reap(
        self, now: datetime | None = None, *, rules: ReaperRules = RULES, storage: Any = None, **order: Any
    ) -> Reaped:
        """One run of the reaper."""
        actor = order.pop("actor", "kim")
        return reap(ReapRequest(actor, rules, **order), self.reap_effects(storage), now)

    def process_tickets(
        self, now: datetime | None = None, processor_id: str = "OPS_CYCLE/test"
    ) -> ProcessReport:
        """Take and carry out what waits."""
        report = ProcessReport()
        process_tickets(self.process_effects(), processor_id, report, now)
        return report

    def ticket(self, ticket: Ticket | UUID) -> Ticket:
        """As it stands now."""
        request_id = ticket if isinstance(ticket, UUID) else ticket.request_id
        with self.database.connection() as connection:
            found = store.find(connection, request_id)
        assert found is not None
        return found

    def details(self, ticket: Ticket) -> WholeTicket:
        """With its result and history."""
        with self.database.connection() as connection:
            return read.read(connection, ticket.request_id)

    def now(self) -> datetime:
        """Postgres's clock (D1)."""
        with self.database.connection() as connection:
            return store.clock(connection)

    def later(self, **delta: float) -> datetime:
        """Postgres's clock, moved ahead."""
        return self.now() + timedelta(**delta)

    def objects(self) -> dict[str, Any]:
        """What lies in the bucket, by key."""
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {
            one["Key"]: json.loads(self.s3.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read())
            for one in listed
        }

    def latest_object(self) -> Any:
        """`latest` as it lies in the bucket."""
        return self.objects()[LATEST_KEY]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement finds."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


@contextmanager
def open_environment(url: str) -> Iterator[Environment]:
    """A desk on this database, with a bucket of its own."""
    bucket, s3 = f"reports-{uuid4().hex}", boto3.client("s3")
    s3.create_bucket(Bucket=bucket)
    database = Database(url)
    try:
        yield Environment(url, database, bucket, s3, ObjectStore(bucket, lambda: s3))
    finally:
        database.close()
