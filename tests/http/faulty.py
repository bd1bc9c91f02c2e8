"""The HTTP functions behind proxies that can be stopped, with short timeouts and clients that can be made to fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from dpp.money.keys import KeySpace
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db import redis
from dpp.platform.db.postgres import Database
from dpp.runs import admission
from dpp.runs.jobs.batch import BatchReport
from dpp.runs.jobs.reconcile import reconcile, refund_orphans
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import TERMINAL
from dpp.runs.read import ReadEffects
from dpp.runs.submit import SubmitEffects
from health.handler import Wiring, probes_of
from tests.http.state import work
from tests.support.faults import FailingClient
from tests.support.proxy import Proxy
from tests.support.world import Tenant, World

REPLY_TIMEOUT_SECONDS = 2.0
"""Long enough for a healthy server on a loaded machine; each hanging call takes this long."""

# The bytes that identify a step in a chunk to Postgres or Redis.
AUTHENTICATE = b"FROM api_keys"
INSERT = b"INSERT INTO runs"
MARK_ENQUEUED = b"SET enqueued_at"
CLAIM = b"finalize_stage = 'CLAIMED', finalize_token"
COMMIT = b"finalize_stage = 'COMMITTED'"
FIND_BY_KEY = b"idempotency_released_at IS NULL"
FIND_FOR_OWNER = b"is_past_retention"
ADMIT = admission._ADMIT.sha1.encode()
REMEMBER = admission._REMEMBER.sha1.encode()
OBSERVE = admission._OBSERVE.sha1.encode()


@dataclass(slots=True)
class Faulty:
    """The proxies and the world behind them."""

    world: World
    postgres: Proxy
    redis: Proxy
    queue: Queue
    storage: ObjectStore
    database: Database

    def heal(self) -> None:
        """Make every dependency available again."""
        self.postgres.heal()
        self.redis.heal()
        _aws_client(self.queue, self.world.sqs)
        _aws_client(self.storage, self.world.s3)

    def lose_sqs(self, *, reply_only: bool = False) -> None:
        """Make every call to SQS fail, or only lose its reply."""
        _aws_client(self.queue, FailingClient(self.world.sqs if reply_only else None))

    def lose_s3(self) -> None:
        """Make every call to S3 fail."""
        _aws_client(self.storage, FailingClient())


@contextmanager
def faulty_functions(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """Connect every function through the proxies."""
    with Proxy(world.database_url) as postgres, Proxy(world.redis_url) as redis_proxy:
        database = Database(postgres.url, reply_timeout_seconds=REPLY_TIMEOUT_SECONDS)
        client = redis.connect(redis_proxy.url, timeout_seconds=REPLY_TIMEOUT_SECONDS)
        ledger = Ledger(client, KeySpace())
        queue = Queue(world.queue_url, lambda: world.sqs)
        storage = ObjectStore(world.bucket, lambda: world.s3)
        submits = SubmitEffects(database, ledger, queue)
        reads = ReadEffects(database, ledger, storage)
        asks = Wiring(database, client, probes_of(database, client, storage, queue))
        monkeypatch.setattr("runs_submit.handler.wiring", lambda: submits)
        monkeypatch.setattr("runs_read.handler.wiring", lambda: reads)
        monkeypatch.setattr("health.handler.wiring", lambda: asks)
        try:
            yield Faulty(world, postgres, redis_proxy, queue, storage, database)
        finally:
            database.close()
            client.close()


def assert_heals(world: World, tenant: Tenant) -> None:
    """After recovery and the jobs, every run has ended, and no money is lost or reserved."""
    ahead = world.now() + timedelta(minutes=10)
    reconcile(world.reconcile_effects(), world.new_database(), now=ahead)
    # The age of reservations is by the clock of Redis, which can't be set.
    refund_orphans(world.reconcile_effects(), tenant.tenant_id, BatchReport(), age_seconds=-2)
    work(world)
    sweep(world.finalize_effects(), world.new_database(), now=ahead)
    assert {status for (status,) in world.sql("SELECT status FROM runs")} <= TERMINAL
    position = world.position(tenant)
    assert position.balanced
    assert position.open_reservations_usd_micros == 0


def _aws_client(owner: Queue | ObjectStore, client: Any) -> None:
    owner.__dict__["_client"] = client
