"""One test's platform: real Postgres and Valkey, S3 and SQS by moto, a pack with prepared answers."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import boto3
import psycopg

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackFailure, PackRequest, PackResult, PackSuccess, PackType
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.keys import api_keys
from dpp.platform.keys.api_keys import Caller
from dpp.runs import store
from dpp.runs.execute import WorkEffects
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reconcile import ReconcileEffects
from dpp.runs.message import RunMessage
from dpp.runs.model import Run, SubmitRequest
from dpp.runs.submit import SubmitEffects, Submitted, submit
from tests.support.stored import Stored, existing

A_CREDIT = 10_000_000
A_RESERVATION = 250_000
A_COST = 50_000
DONE = PackSuccess(
    data={"answer_text": "42", "confidence": 0.9}, reliability_score=0.9, cost_usd_micros=A_COST, tokens_consumed=7
)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant with money and a key."""

    tenant_id: str
    token: str
    caller: Caller


class ScriptedPacks:
    """Stands in for the pack process where a test is about something else: answers `result` at once."""

    def __init__(self, result: PackResult = DONE) -> None:
        self.result = result
        self.requests: list[PackRequest] = []

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Note the request and answer."""
        self.requests.append(request)
        return self.result

    def prestart(self) -> None:
        """Nothing to warm."""


class RunEffects(Stored):
    """The base of what has everything that runs use; makes the effects of each use case."""

    __slots__ = ()
    ledger: Ledger
    queue: Queue
    storage: ObjectStore
    new_database: Callable[[], Database]
    """Opens another connection, which is closed with this one."""

    def submit_effects(self) -> SubmitEffects:
        return SubmitEffects(self.database, self.ledger, self.queue)

    def finalize_effects(self) -> FinalizeEffects:
        return FinalizeEffects(self.database, self.ledger, self.storage)

    def reconcile_effects(self) -> ReconcileEffects:
        return ReconcileEffects(self.database, self.ledger, self.storage, self.queue)

    def work_effects(self, packs: Any = None) -> WorkEffects:
        """The effects of the worker."""
        return WorkEffects(
            self.database, self.new_database, self.ledger, self.queue, self.storage, packs or ScriptedPacks()
        )


@dataclass(slots=True)
class World(RunEffects):
    """The real parts, and short ways to use them."""

    database_url: str
    redis_url: str
    queue_url: str
    bucket: str
    database: Database
    ledger: Ledger
    queue: Queue
    storage: ObjectStore
    sqs: Any
    s3: Any
    opened: list[Database] = field(default_factory=list)

    @classmethod
    @contextmanager
    def open(cls, database_url: str, redis_url: str, *, sqs: Any = None, s3: Any = None) -> Iterator[Self]:
        """Create a queue and a bucket (by default in moto), connect to everything, and close it afterwards."""
        name = f"t-{uuid4().hex}"
        sqs, s3 = sqs or boto3.client("sqs"), s3 or boto3.client("s3")
        queue_url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "120"})["QueueUrl"]
        s3.create_bucket(Bucket=name)
        made = cls(
            database_url=database_url,
            redis_url=redis_url,
            queue_url=queue_url,
            bucket=name,
            database=Database(database_url),
            ledger=Ledger.connect(redis_url),
            queue=Queue(queue_url, lambda: sqs),
            storage=ObjectStore(name, lambda: s3),
            sqs=sqs,
            s3=s3,
        )
        try:
            yield made
        finally:
            for database in (made.database, *made.opened):
                database.close()
            made.ledger.client.close()

    def environ(self) -> dict[str, str]:
        """A function's environment variables."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "DPP_RUN_QUEUE_URL": self.queue_url,
            "DPP_RESULTS_BUCKET": self.bucket,
            "DPP_REPORTS_BUCKET": self.bucket,
            "DPP_STATE_BUCKET": self.bucket,
            "DPP_AUTH_ERROR_QUEUE_URL": self.queue_url,
            "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": self.queue_url,
            "DPP_AUTH_ERROR_WAKE_QUEUE_URL": self.queue_url,
        }

    def new_database(self) -> Database:
        """Another connection, closed with the world."""
        database = Database(self.database_url)
        self.opened.append(database)
        return database

    def tenant(self, credit_usd_micros: int = A_CREDIT, rate_limit_per_minute: int = 100_000) -> Tenant:
        """A new tenant with a key; the rate limit is out of the way unless a test sets it."""
        tenant_id = f"t_{uuid4().hex[:12]}"
        minted = api_keys.mint()
        self.using(create_tenant, tenant_id, "A tenant", rate_limit_per_minute)
        self.using(api_keys.store, minted, tenant_id)
        if credit_usd_micros:
            self.credit(tenant_id, credit_usd_micros)
        return Tenant(tenant_id, minted.token, Caller(tenant_id, minted.key_id, rate_limit_per_minute))

    def credit(self, tenant_id: str, usd_micros: int, database: Database | None = None) -> int:
        """Give a tenant money; its new balance."""
        with (database or self.database).connection() as connection:
            return give_credit(connection, self.ledger, tenant_id, usd_micros)

    def submit(self, tenant: Tenant, **changes: Any) -> Submitted:
        """Submit a run."""
        return submit(a_request(tenant, **changes), self.submit_effects())

    def leased(self, tenant: Tenant, **changes: Any) -> Run:
        """A run that a worker holds."""
        queued = self.submit(tenant, **changes).run
        return existing(self.using(store.start_processing, queued, f"lease-{uuid4()}"))

    def new_run(self, **changes: Any) -> tuple[Tenant, Run]:
        """A new tenant and its run, which waits."""
        tenant = self.tenant()
        return tenant, self.submit(tenant, **changes).run

    def new_leased_run(self, **changes: Any) -> tuple[Tenant, Run]:
        """A new tenant and its run, which a worker holds."""
        tenant = self.tenant()
        return tenant, self.leased(tenant, **changes)

    def run(self, run: Run) -> Run:
        """The run as it stands now."""
        return existing(self.using(store.find, run.tenant_id, run.run_id))

    def now(self) -> datetime:
        """Postgres's clock (D1)."""
        ((now,),) = self.sql("SELECT now()")
        return now  # type: ignore[no-any-return]

    def later(self, **delta: float) -> datetime:
        """Postgres's clock, moved ahead."""
        return self.now() + timedelta(**delta)

    def position(self, tenant: Tenant) -> LedgerPosition:
        """The tenant's books."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            return audit_tenant(connection, self.ledger, tenant.tenant_id)

    def lose_redis(self, tenant: Tenant, run_ids: Iterable[str] | None = None) -> None:
        """Redis forgets everything of a tenant, as a flush or a failover to an empty replica makes it.

        `run_ids`: of its runs, where some of them have no row any more.
        """
        keys = self.ledger.keys
        if run_ids is None:
            run_ids = [str(run_id) for (run_id,) in self.sql("SELECT run_id FROM runs")]
        self.ledger.client.delete(
            keys.balance(tenant.tenant_id),
            keys.reservation_ages(tenant.tenant_id),
            keys.reservation_amounts(tenant.tenant_id),
            keys.credits_applied(tenant.tenant_id),
        )
        for run_id in run_ids:
            self.ledger.client.delete(
                keys.reservation(tenant.tenant_id, run_id), keys.receipt(tenant.tenant_id, run_id)
            )

    def messages(self) -> list[RunMessage]:
        """Take every visible message off the queue."""
        taken: list[RunMessage] = []
        while found := self.sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                taken.append(RunMessage.model_validate_json(message["Body"]))
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return taken


def give_credit(connection: Connection, ledger: Ledger, tenant_id: str, usd_micros: int) -> int:
    """Give a tenant money; its new balance."""
    return credit(
        connection, ledger, credit_id=uuid4(), tenant_id=tenant_id, amount_usd_micros=usd_micros, reason="for a test"
    )


def a_request(tenant: Tenant | str, **changes: Any) -> SubmitRequest:
    """A submit of a decision for 0.25 USD, with `changes`; the rate limit of a tenant given by its id is high."""
    caller = tenant.caller if isinstance(tenant, Tenant) else Caller(tenant, UUID(int=0), 1_000_000)
    values: dict[str, Any] = {
        "tenant_id": caller.tenant_id,
        "rate_limit_per_minute": caller.rate_limit_per_minute,
        "idempotency_key": f"key-{uuid4()}",
        "pack_type": PackType.DECISION,
        "inputs": {"question": "What is the answer?"},
        "reserved_usd_micros": A_RESERVATION,
        "timebox_sec": 90,
        "min_reliability_score": 0.8,
        "inline_result": False,
        "profile_version": "PROFILE_DPP_0_4_2_2",
        "trace_id": "t_test",
    }
    return SubmitRequest(**(values | changes))


def message_of(run: Run) -> RunMessage:
    """The run's message, as a redelivery brings it."""
    return RunMessage(run_id=UUID(run.id), tenant_id=run.tenant_id, pack_type=run.pack_type, enqueued_at=run.created_at)


__all__ = ["DONE", "PackFailure", "ScriptedPacks", "Tenant", "World", "a_request", "message_of"]
