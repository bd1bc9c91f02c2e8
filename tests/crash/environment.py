"""The environment of an act: real servers, a movable clock, clients that repeat requests, the crashed process."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Event
from typing import Any, Self
from uuid import UUID

from dpp.money.ledger import Ledger
from dpp.packs.contract import PackRequest, PackResult
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.runs import execute, store
from dpp.runs.errors import RunsError
from dpp.runs.execute import WorkEffects
from dpp.runs.lease import Heartbeat, LeaseEffects
from dpp.runs.message import RunMessage
from dpp.runs.model import Run, SubmitRequest
from dpp.runs.submit import SubmitEffects, Submitted, submit
from tests.runs.switched import switch
from tests.support.clock import MovedClock
from tests.support.crash_points import FaultInjector
from tests.support.crashable import CrashableDatabase, crashable_ledger, crashable_queue, crashable_storage
from tests.support.stored import existing
from tests.support.world import DONE, RunEffects, Tenant, World, a_request

END_OF_NEWS = "end-of-news"


class RecordingPacks:
    """Returns `result` at once and records the runs; `during` is called while the pack runs."""

    def __init__(self) -> None:
        self.result: PackResult = DONE
        self.answers: dict[str, list[PackResult]] = defaultdict(list)
        self.started: Counter[str] = Counter()
        self.during: Callable[[str], None] | None = None

    def run(self, request: PackRequest, *, cancelled: Event) -> PackResult:
        """Record the request and return the result."""
        self.started[request.run_id] += 1
        self.answers[request.run_id].append(self.result)
        if self.during is not None:
            self.during(request.run_id)
        return self.result

    def prestart(self) -> None:
        """Do nothing."""


class Clock(MovedClock):
    """The time of the jobs (D1). Redis has a clock of its own: moving this one ages its keys and reservations."""

    def __init__(self, world: World, start: datetime, seconds: float = 0.0) -> None:
        super().__init__(start, seconds)
        self._client: Any = world.ledger.client

    def move(self, seconds: float) -> None:
        """Let time pass: keys expire, reservations age."""
        super().move(seconds)
        client, passed_ms = self._client, int(seconds * 1_000)
        keys = list(client.scan_iter(count=1_000))
        ages = [key for key in keys if key.endswith(":reserved_at_ms")]
        with client.pipeline(transaction=False) as reads:
            for key in keys:
                reads.pttl(key)
            for key in ages:
                reads.zrange(key, 0, -1)
            answers = reads.execute()
        with client.pipeline(transaction=False) as writes:
            for key, left_ms in zip(keys, answers, strict=False):
                if left_ms > 0:
                    writes.pexpire(key, left_ms - passed_ms)  # a time that is not positive deletes the key
            for key, runs in zip(ages, answers[len(keys) :], strict=True):
                for run_id in runs:
                    writes.zincrby(key, -passed_ms, run_id)
            writes.execute()


@dataclass(slots=True)
class Client:
    """A client that wants one run, with one idempotency key; a `persistent` one repeats until it is accepted."""

    tenant: Tenant
    request: SubmitRequest
    persistent: bool
    accepted: list[Submitted] = field(default_factory=list)
    refused: list[Exception] = field(default_factory=list)

    def submit(self, effects: SubmitEffects) -> Submitted | None:
        """One submit; its result is recorded, unless the function crashes."""
        try:
            self.accepted.append(submit(self.request, effects))
        except (RunsError, DependencyUnavailable) as error:
            self.refused.append(error)
            return None
        return self.accepted[-1]


@dataclass(slots=True)
class Container(RunEffects):
    """The process that crashes: each call of its adapters goes through the injector."""

    database: Database
    scan: Database
    new_database: Callable[[], Database]
    ledger: Ledger
    queue: Queue
    storage: ObjectStore

    @classmethod
    @contextmanager
    def started(cls, world: World, injector: FaultInjector, *, sqs: Any = None) -> Iterator[Self]:
        """Start one; its connections end with it."""
        opened: list[Database] = []

        def database() -> Database:
            opened.append(CrashableDatabase(world.database_url, injector))
            return opened[-1]

        try:
            yield cls(
                database=database(),
                scan=database(),
                new_database=database,
                ledger=crashable_ledger(world.ledger, injector),
                queue=crashable_queue(world.queue_url, sqs or world.sqs, injector),
                storage=crashable_storage(world.bucket, world.s3, injector),
            )
        finally:
            for each in opened:
                each.close()

    def worker(self, packs: RecordingPacks, *, retries: bool = False) -> WorkEffects:
        """Connections and clients that a worker uses; with `retries` it tries each step of its finalize twice."""
        return replace(self.work_effects(packs), pauses_seconds=(0.0,) if retries else ())


@dataclass(slots=True)
class Environment:
    """The state at one moment of an act."""

    world: World
    clock: Clock
    scan: Database
    news: Any
    """Redis's keyspace notifications about balances."""
    dead_letters_url: str = ""
    packs: RecordingPacks = field(default_factory=RecordingPacks)
    tenants: list[Tenant] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    container_sqs: Any = None
    """The client that the container has instead of SQS's."""
    redis_lost_writes: bool = False
    """True if Redis loses data in this act; charges may then be beyond proof."""
    receipt_handle: str = ""
    _moves: int = 0

    def tenant(self) -> Tenant:
        self.moves()
        self.tenants.append(self.world.tenant())
        self._new_moves()  # the credit is not counted
        return self.tenants[-1]

    def client(self, tenant: Tenant | None = None, *, persistent: bool = False) -> Client:
        tenant = tenant or self.tenant()
        made = Client(tenant, a_request(tenant), persistent)
        self.clients.append(made)
        return made

    def queued(self, tenant: Tenant | None = None) -> Run:
        """A run of a new client, and its message."""
        accepted = existing(self.client(tenant).submit(self.world.submit_effects()))
        return accepted.run

    def switch(self, *, enabled: bool) -> None:
        """Enable or disable all packs, as an operator does (TIX-1)."""
        switch(self.world.database, enabled=enabled, at=self.clock.now)

    def work_effects(self) -> WorkEffects:
        """Connections and clients of a healthy worker."""
        return replace(self.world.work_effects(self.packs), pauses_seconds=())

    def with_one_heartbeat(self, container: Container) -> None:
        """Send one heartbeat while the next pack runs, on this thread."""

        def heartbeat(run_id: str) -> None:
            self.packs.during = None
            [client] = self.clients
            leased = existing(self.world.using(store.find, client.tenant.tenant_id, UUID(run_id)))
            effects = LeaseEffects(container.new_database(), container.ledger, container.queue)
            Heartbeat(effects, leased, self.receipt_handle).extend()

        self.packs.during = heartbeat

    def deliver(self, effects: WorkEffects) -> None:
        """Hand each message to a worker, as Lambda's poller does; a failed one becomes visible again at the end."""
        sqs, url = self.world.sqs, self.world.queue_url
        failed: list[str] = []
        while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1).get("Messages"):
            [message] = found
            handle = self.receipt_handle = message["ReceiptHandle"]
            try:
                execute.execute(RunMessage.model_validate_json(message["Body"]), handle, effects)
            except DependencyUnavailable:
                failed.append(handle)
                continue
            except BaseException:
                failed.append(handle)
                self._show_again(failed)
                raise
            sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
        self._show_again(failed)

    def messages(self, *, dead: bool = False) -> int:
        """Return how many messages are left, hidden ones too; or how many dead letters."""
        return len(self.world.sqs.of(self.dead_letters_url if dead else self.world.queue_url))

    def moves(self) -> int:
        """Return how often a balance was moved since `count_moves`, without credits and rebuilds."""
        self._moves += self._new_moves()
        return self._moves

    def count_moves(self, moves: int = 0) -> None:
        """Begin to count anew, from `moves`."""
        self._new_moves()
        self._moves = moves

    def _new_moves(self) -> int:
        client: Any = self.world.ledger.client
        client.publish(END_OF_NEWS, "")  # arrives after all notifications before it
        seen: list[str] = []
        deadline = time.monotonic() + 60
        while END_OF_NEWS not in seen:
            assert time.monotonic() < deadline, "Redis sends no notifications"
            message = self.news.get_message(timeout=1)
            if message is not None:
                seen.append(message["data"] or message["channel"])
        return seen.count("incrby") - seen.count("del")

    def _show_again(self, handles: list[str]) -> None:
        for handle in handles:
            self.world.sqs.change_message_visibility(
                QueueUrl=self.world.queue_url, ReceiptHandle=handle, VisibilityTimeout=0
            )
