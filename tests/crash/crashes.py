"""The matrix of runs: the acts on one set of servers, with Redis restored along with the tables."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import psycopg
from redis import Redis

from dpp.packs.contract import PackResult
from dpp.runs.machine import Status
from tests.crash.acts import ACTS
from tests.crash.environment import END_OF_NEWS, Client, Clock, Container, Environment
from tests.crash.invariants import violations_after_recovery, violations_after_retention
from tests.crash.recovery import recover, retire
from tests.support.crash_matrix import CrashSuite
from tests.support.crash_points import FaultInjector, FaultKind
from tests.support.crashable import names_of_scripts, scripts
from tests.support.memory_sqs import Message
from tests.support.saved_tables import SavedTables
from tests.support.world import Tenant, World

REDIS_DATABASE = 9
_MAX_RECEIVES = 3
_KILLS = frozenset({FaultKind.KILLED_BEFORE, FaultKind.KILLED_AFTER})


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is not in the tables."""

    keys: dict[bytes, tuple[int, bytes]]
    objects: dict[str, bytes]
    messages: dict[str, list[Message]]
    start: datetime
    seconds: float
    moves: int
    redis_lost_writes: bool
    container_sqs: Any
    tenants: list[Tenant]
    clients: list[Client]
    result: PackResult
    started: Counter[str]
    answers: dict[str, list[PackResult]]


class RunCrashes(CrashSuite):
    """The paths of a run, on real Postgres and Redis, with SQS and S3 in memory."""

    env: Environment

    def __init__(self, world: World, admin: psycopg.Connection[Any]) -> None:
        super().__init__(SavedTables(admin))
        self.world = world
        self._scan = world.new_database()
        self._dead_letters_url = world.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        world.sqs.redrive(world.queue_url, self._dead_letters_url, _MAX_RECEIVES)
        client: Any = world.ledger.client
        client.config_set("notify-keyspace-events", "K$g")
        self._news = client.pubsub(ignore_subscribe_messages=True)
        self._news.psubscribe(f"__keyspace@{REDIS_DATABASE}__:budget:*")
        self._news.subscribe(END_OF_NEWS)

    def close(self) -> None:
        """End the subscription."""
        self._news.close()

    def set_up(self, act: str) -> None:
        """Create the state before the act."""
        ACTS[act].before(self.env)

    def state(self) -> State:
        """A copy of everything that is not in the tables."""
        env, client = self.env, _client_of_bytes(self.world.redis_url)
        return State(
            keys={key: (client.pttl(key), client.dump(key)) for key in client.scan_iter(count=1_000)},
            objects=dict(self.world.s3.objects),
            messages=self.world.sqs.saved(),
            start=env.clock.start,
            seconds=env.clock.seconds,
            moves=env.moves(),
            redis_lost_writes=env.redis_lost_writes,
            container_sqs=env.container_sqs,
            tenants=list(env.tenants),
            clients=deepcopy(env.clients),
            result=env.packs.result,
            started=Counter(env.packs.started),
            answers=deepcopy(dict(env.packs.answers)),
        )

    def restore(self, state: State | None) -> None:
        """A new environment, empty or with what was saved."""
        world = self.world
        self._empty_redis()
        world.sqs.restore(state.messages if state else {})
        world.s3.objects = dict(state.objects) if state else {}
        start = state.start if state else world.now()
        env = Environment(world, Clock(world, start), self._scan, self._news, self._dead_letters_url)
        self.env = env
        if state is None:
            env.count_moves()
            return
        with _client_of_bytes(world.redis_url).pipeline(transaction=False) as writes:
            for key, (left_ms, value) in state.keys.items():
                writes.restore(key, max(left_ms, 0), value)
            writes.execute()
        env.count_moves(state.moves)
        env.clock.seconds = state.seconds
        env.redis_lost_writes, env.container_sqs = state.redis_lost_writes, state.container_sqs
        env.tenants, env.clients = list(state.tenants), deepcopy(state.clients)
        env.packs.result, env.packs.started = state.result, Counter(state.started)
        env.packs.answers = defaultdict(list, deepcopy(state.answers))

    def _empty_redis(self) -> None:
        client: Any = self.world.ledger.client
        client.flushdb()
        if not all(client.script_exists(*names_of_scripts())):
            for script in scripts().values():
                client.script_load(script.source)

    def perform(self, act: str, injector: FaultInjector) -> None:
        self._injector = injector
        try:
            with Container.started(self.world, injector, sqs=self.env.container_sqs) as container:
                ACTS[act].perform(self.env, container)
        finally:
            self.env.packs.during = None

    def violations_at_crash(self, act: str) -> Iterator[str]:
        """A passing fault costs a worker with retries nothing."""
        if act == "work with retries" and self._injector.kind not in _KILLS:
            [client] = self.env.clients
            status = self.world.run(client.accepted[0].run).status
            if status != Status.COMPLETED:
                yield f"the run is {status} after a fault that passes"

    def recover(self, act: str) -> None:
        """Clients and messages come again, the jobs run, and time passes."""
        self._has_settled = recover(self.env)

    def violations(self, act: str) -> Iterator[str]:
        """All invariants, after the recovery and again after the retention period."""
        if not self._has_settled:
            yield "more than an hour later something is still under way"
        yield from violations_after_recovery(self.env)
        retire(self.env)
        yield from violations_after_retention(self.env)

    def crash_at(self, act: str, call: str, kind: FaultKind) -> Environment:
        """Play an act with this fault at the first call of this name."""
        point = next(point for point in self.record(act) if point.call == call)
        self.play(act, FaultInjector(act, at=point.number, kind=kind))
        return self.env


@cache
def _client_of_bytes(url: str) -> Any:
    """A client that does not decode: dumps are not text."""
    return Redis.from_url(url)
