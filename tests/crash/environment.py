"""What a scenario plays on: real servers, a clock that is moved, clients who come again, the container to be hit."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event
from typing import Any, Self
from uuid import UUID

from moto.sqs.models import sqs_backends

from dpp.money.ledger import Ledger
from dpp.packs.contract import PackRequest, PackResult
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.runs import execute, store
from dpp.runs.errors import RunsError
from dpp.runs.execute import WorkEffects
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reconcile import ReconcileEffects
from dpp.runs.lease import Heartbeat, LeaseEffects
from dpp.runs.message import RunMessage
from dpp.runs.model import Run, SubmitRequest
from dpp.runs.submit import SubmitEffects, Submitted, submit
from tests.runs.switched import switch
from tests.support.counted_drivers import CountedDatabase, counted_ledger, counted_queue, counted_storage
from tests.support.crash_points import Points
from tests.support.world import DONE, Tenant, World, a_request

END_OF_NEWS = "end-of-news"


class RecordingPacks:
    """Answers `result` at once, and tells who asked; `during` happens while the pack runs."""

    def __init__(self) -> None:
        self.result: PackResult = DONE
        self.answers: dict[str, list[PackResult]] = defaultdict(list)
        self.started: Counter[str] = Counter()
        self.during: Callable[[str], None] | None = None

    def run(self, request: PackRequest, *, cancelled: Event) -> PackResult:
        """Note the request and answer."""
        self.started[request.run_id] += 1
        self.answers[request.run_id].append(self.result)
        if self.during is not None:
            self.during(request.run_id)
        return self.result

    def prestart(self) -> None:
        """Nothing to warm."""


@dataclass(slots=True)
class Clock:
    """Time that passes when it is told to: for Postgres by being passed, for Redis by what it does to its keys."""

    world: World
    start: datetime
    elapsed_seconds: int = 0

    @property
    def now(self) -> datetime:
        """The time as the jobs are told it (D1)."""
        return self.start + timedelta(seconds=self.elapsed_seconds)

    def move(self, seconds: int) -> None:
        """Let time pass: keys expire, reservations age."""
        self.elapsed_seconds += seconds
        client: Any = self.world.ledger.client
        keys = list(client.scan_iter(count=1_000))
        ages = [key for key in keys if key.endswith(":reserved_at_ms")]
        with client.pipeline(transaction=False) as asked:
            for key in keys:
                asked.pttl(key)
            for key in ages:
                asked.zrange(key, 0, -1)
            answers = asked.execute()
        with client.pipeline(transaction=False) as told:
            for key, left_ms in zip(keys, answers, strict=False):
                if left_ms > 0:
                    told.pexpire(key, left_ms - seconds * 1000)  # what is not positive deletes the key
            for key, runs in zip(ages, answers[len(keys) :], strict=True):
                for run_id in runs:
                    told.zincrby(key, -seconds * 1000, run_id)
            told.execute()


@dataclass(slots=True)
class Client:
    """Someone who wants one run, and asks with one idempotency key; `persistent` asks until accepted."""

    tenant: Tenant
    request: SubmitRequest
    persistent: bool
    accepted: list[Submitted] = field(default_factory=list)
    refused: list[Exception] = field(default_factory=list)

    def ask(self, effects: SubmitEffects) -> Submitted | None:
        """One submit, and what came of it; a crash of the function is no answer."""
        try:
            self.accepted.append(submit(self.request, effects))
        except (RunsError, DependencyUnavailable) as error:
            self.refused.append(error)
            return None
        return self.accepted[-1]


@dataclass(slots=True)
class Container:
    """The process that is hit: every adapter counts its calls."""

    database: Database
    scan: Database
    new_database: Callable[[], Database]
    ledger: Ledger
    queue: Queue
    storage: ObjectStore

    @classmethod
    @contextmanager
    def started(cls, world: World, points: Points, *, sqs: Any = None) -> Iterator[Self]:
        """Start one; its connections end with it."""
        opened: list[Database] = []

        def database() -> Database:
            opened.append(CountedDatabase(world.database_url, points))
            return opened[-1]

        try:
            yield cls(
                database=database(),
                scan=database(),
                new_database=database,
                ledger=counted_ledger(world.ledger, points),
                queue=counted_queue(world.queue_url, sqs or world.sqs, points),
                storage=counted_storage(world.bucket, world.s3, points),
            )
        finally:
            for each in opened:
                each.close()

    def submit_effects(self) -> SubmitEffects:
        """What a submit touches."""
        return SubmitEffects(self.database, self.ledger, self.queue)

    def finalize_effects(self) -> FinalizeEffects:
        """What ending a run touches."""
        return FinalizeEffects(self.database, self.ledger, self.storage)

    def reconcile_effects(self) -> ReconcileEffects:
        """What reconcile touches."""
        return ReconcileEffects(self.database, self.ledger, self.storage, self.queue)

    def work_effects(self, packs: RecordingPacks, *, patient: bool = False) -> WorkEffects:
        """What the worker touches; a patient one tries each step of its finalize twice."""
        pauses = (0.0,) if patient else ()
        return WorkEffects(
            self.database,
            self.new_database,
            self.ledger,
            self.queue,
            self.storage,
            packs,
            pauses_seconds=pauses,
        )


@dataclass(slots=True)
class Environment:
    """One test's scene."""

    world: World
    dead_letters_url: str
    clock: Clock
    scan: Database
    pushed: Any
    """Redis's news of balances (keyspace notifications)."""
    packs: RecordingPacks = field(default_factory=RecordingPacks)
    tenants: list[Tenant] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    sqs: Any = None
    """What the container finds instead of SQS."""
    redis_lost_writes: bool = False
    """Whether the scenario lets Redis forget something; what was charged may then be beyond proof."""
    receipt_handle: str = ""
    _moves: int = 0

    def tenant(self) -> Tenant:
        """A tenant with money."""
        self.moves()
        self.tenants.append(self.world.tenant())
        self._news()  # the credit is none of the moves that are counted
        return self.tenants[-1]

    def client(self, tenant: Tenant | None = None, *, persistent: bool = False) -> Client:
        """Someone new."""
        tenant = tenant or self.tenant()
        made = Client(tenant, a_request(tenant), persistent)
        self.clients.append(made)
        return made

    def queued(self, tenant: Tenant | None = None) -> Run:
        """A run of a new client's, and its message."""
        accepted = self.client(tenant).ask(self.world.submit_effects())
        assert accepted is not None
        return accepted.run

    def switch(self, *, enabled: bool) -> None:
        """An operator's decision about all packs (TIX-1)."""
        switch(self.world.database, enabled=enabled, at=self.clock.now)

    def work_effects(self) -> WorkEffects:
        """A healthy worker."""
        world = self.world
        return WorkEffects(
            world.database,
            world.new_database,
            world.ledger,
            world.queue,
            world.storage,
            self.packs,
            pauses_seconds=(),
        )

    def beat_once(self, container: Container) -> None:
        """While the next pack runs, the heartbeat beats once, on this thread."""

        def beat(run_id: str) -> None:
            self.packs.during = None
            [client] = self.clients
            with self.world.database.connection() as connection:
                leased = store.find(connection, client.tenant.tenant_id, UUID(run_id))
            assert leased is not None
            beats = LeaseEffects(container.new_database(), container.ledger, container.queue)
            Heartbeat(beats, leased, self.receipt_handle).beat()

        self.packs.during = beat

    def deliver(self, effects: WorkEffects) -> None:
        """Lambda's poller: hand each message to a worker; what it fails comes again when it is visible again."""
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

    def messages(self, *, dead_ones: bool = False) -> int:
        """How many messages are left, invisible ones among them; or how many dead letters."""
        name = (self.dead_letters_url if dead_ones else self.world.queue_url).rpartition("/")[2]
        # Asked of moto itself: over HTTP this is a tenth of a test's time.
        [queue] = [found for region in _moto() if (found := region.queues.get(name)) is not None]
        return int(queue.approximate_number_of_messages + queue.approximate_number_of_messages_not_visible)

    def moves(self) -> int:
        """How often a balance was moved since the stage was set, beside the credits and what was written anew."""
        self._moves += self._news()
        return self._moves

    def forget_moves(self, moves: int = 0) -> None:
        """Begin to count anew, from `moves`."""
        self._news()
        self._moves = moves

    def objects(self) -> dict[str, bytes]:
        """What stands in the bucket."""
        s3, bucket = self.world.s3, self.world.bucket
        listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {each["Key"]: s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read() for each in listed}

    def _news(self) -> int:
        client: Any = self.world.ledger.client
        client.publish(END_OF_NEWS, "")  # pushed behind all that was pushed before it
        heard: list[str] = []
        deadline = time.monotonic() + 10
        while END_OF_NEWS not in heard:
            assert time.monotonic() < deadline, "Redis pushes nothing"
            message = self.pushed.get_message(timeout=1)
            if message is not None:
                heard.append(message["data"] or message["channel"])
        return heard.count("incrby") - heard.count("del")

    def _show_again(self, handles: list[str]) -> None:
        for handle in handles:
            self.world.sqs.change_message_visibility(
                QueueUrl=self.world.queue_url, ReceiptHandle=handle, VisibilityTimeout=0
            )


def _moto() -> Iterator[Any]:
    return (region for regions in sqs_backends.values() for region in regions.values())
