"""Tickets on real Postgres, with S3 in moto and executors that return given results."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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
from tests.support.stored import Stored, existing

SEOUL = ZoneInfo("Asia/Seoul")
A_DAY = 86_400
RULES = ReaperRules(threshold_seconds=A_DAY, max_clean=50, breaker=Breaker(max_stale=100, max_share=0.5))


class CannedExecutor:
    """An executor that returns or raises given results, and records its tickets."""

    def __init__(self) -> None:
        self.does: Callable[[Ticket], str] = lambda ticket: f"{ticket.request_type} done"
        self.carried_out: list[UUID] = []

    def __call__(self, ticket: Ticket) -> str:
        self.carried_out.append(ticket.request_id)
        return self.does(ticket)


@dataclass(slots=True)
class Environment(Stored):
    """The database, the bucket and shortcuts to use them."""

    url: str
    database: Database
    bucket: str
    s3: Any
    storage: ObjectStore
    executor: CannedExecutor = field(default_factory=CannedExecutor)

    def environ(self) -> dict[str, str]:
        """The environment variables of the API function."""
        return {"DATABASE_URL": self.url, "DPP_REPORTS_BUCKET": self.bucket}

    def new_database(self) -> Database:
        """Another connection; the caller closes it."""
        return Database(self.url)

    def reap_effects(self, storage: Any = None, zone: ZoneInfo = SEOUL) -> ReapEffects:
        return ReapEffects(self.database, storage or self.storage, zone)

    def process_effects(self, executor: Executor | None = None, rules: ReaperRules = RULES) -> ProcessEffects:
        """The effects of processing, with one executor for all types."""
        return ProcessEffects(self.database, dict.fromkeys(RequestType, executor or self.executor), rules)

    def cycle(self, now: datetime | None = None, storage: Any = None, **changes: Any) -> Cycle:
        """Run one ops cycle."""
        return run_cycle(CycleEffects(self.reap_effects(storage), self.process_effects(**changes)), now)

    def file(self, request_type: RequestType = RequestType.DLQ_REDRIVE, **changes: Any) -> Ticket:
        values: dict[str, Any] = {
            "request_id": uuid4(),
            "request_type": request_type,
            "params": {"limit": 10},
            "reason": "for a test",
            "requested_by": "kim",
        }
        return file(NewTicket(**values | changes), self.database).ticket

    def in_progress(self, *, silent_seconds: float = 0, **changes: Any) -> Ticket:
        """A ticket in progress whose processor has been inactive since `at`."""
        ticket = self.file(**changes)
        then = self.now() - timedelta(seconds=silent_seconds)
        with self.database.connection() as connection, connection.transaction():
            # Written with past times; the table's checks apply.
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(
                "UPDATE tickets SET created_at = %(then)s, updated_at = %(then)s WHERE request_id = %(id)s",
                {"then": then, "id": ticket.request_id},
            )
            connection.execute("SET LOCAL session_replication_role = origin")
            connection.execute(
                "UPDATE tickets SET current_status = 'IN_PROGRESS', processor_id = 'a-processor',"
                " moved_by = 'a-processor', attempts = 1, last_processed_at = %(then)s, updated_at = %(then)s"
                " WHERE request_id = %(id)s",
                {"then": then, "id": ticket.request_id},
            )
        return self.ticket(ticket)

    def stale(self, hours: float = 25, **changes: Any) -> Ticket:
        """A ticket whose processor has been inactive for some hours."""
        return self.in_progress(silent_seconds=hours * 3600, **changes)

    def reap(
        self, now: datetime | None = None, *, rules: ReaperRules = RULES, storage: Any = None, **order: Any
    ) -> Reaped:
        actor = order.pop("actor", "kim")
        return reap(ReapRequest(actor, rules, **order), self.reap_effects(storage), now)

    def process_tickets(self, now: datetime | None = None, processor_id: str = "OPS_CYCLE/test") -> ProcessReport:
        report = ProcessReport()
        process_tickets(self.process_effects(), processor_id, report, now)
        return report

    def ticket(self, ticket: Ticket | UUID) -> Ticket:
        request_id = ticket if isinstance(ticket, UUID) else ticket.request_id
        return existing(self.using(store.find, request_id))

    def details(self, ticket: Ticket) -> WholeTicket:
        """The ticket with its result and history."""
        return self.using(read.read, ticket.request_id)

    def now(self) -> datetime:
        """Postgres's clock (D1)."""
        return self.using(store.clock)

    def later(self, **delta: float) -> datetime:
        """Postgres's clock, moved ahead."""
        return self.now() + timedelta(**delta)

    def objects(self) -> dict[str, Any]:
        """The objects of the bucket, by key."""
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {
            one["Key"]: json.loads(self.s3.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read())
            for one in listed
        }

    def latest_object(self) -> Any:
        """The object `latest` of the bucket."""
        return self.objects()[LATEST_KEY]

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()


@contextmanager
def open_environment(url: str) -> Iterator[Environment]:
    """An environment on this database, with its own bucket."""
    bucket, s3 = f"reports-{uuid4().hex}", boto3.client("s3")
    s3.create_bucket(Bucket=bucket)
    with closing(Database(url)) as database:
        yield Environment(url, database, bucket, s3, ObjectStore(bucket, lambda: s3))
