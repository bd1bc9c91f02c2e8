"""The servers that every test of the matrix plays on, one after the other."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import psycopg

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from tests.crash.environment import END_OF_NEWS, Clock, Container, Environment
from tests.crash.saved_state import SavedState, for_each_table
from tests.crash.scenarios import SCENARIOS
from tests.support.counted_drivers import names_of_scripts, scripts
from tests.support.crash_points import Killed, Point, Points
from tests.support.world import World

_DATABASE_OF_REDIS = 9
_MAX_RECEIVES = 3


@dataclass(slots=True)
class CrashServers:
    """Real servers, and a connection that may do what the platform must not: empty its tables."""

    world: World
    admin: psycopg.Connection[Any]
    dead_letters_url: str
    scan: Database
    moves: Any
    kept: dict[str, SavedState] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(cls, database_url: str, redis_url: str) -> Iterator[Self]:
        """Connect to everything."""
        redis_url = f"{redis_url.rpartition('/')[0]}/{_DATABASE_OF_REDIS}"
        with (
            World.open(database_url, redis_url) as world,
            psycopg.connect(database_url, autocommit=True) as admin,
        ):
            admin.execute("SET session_replication_role = replica")  # no trigger, no foreign key
            dead_letters_url = _new_queues(world)
            client: Any = world.ledger.client
            client.config_set("notify-keyspace-events", "K$g")
            moves = client.pubsub(ignore_subscribe_messages=True)
            moves.psubscribe(f"__keyspace@{_DATABASE_OF_REDIS}__:budget:*")
            moves.subscribe(END_OF_NEWS)
            yield cls(world, admin, dead_letters_url, world.new_database(), moves)
            moves.close()

    def empty_environment(self) -> Environment:
        """An empty stage."""
        world = self.world
        for_each_table(self.admin, "DELETE FROM public.{0}")
        client: Any = world.ledger.client
        client.flushdb()
        if not all(client.script_exists(*names_of_scripts())):
            for script in scripts().values():
                client.script_load(script.source)
        env = Environment(world, self.dead_letters_url, Clock(world, world.now()), self.scan, self.moves)
        # SQS purges a queue once a minute, which is too rarely.
        if env.messages() or env.messages(dead_ones=True):
            env.dead_letters_url = self.dead_letters_url = _new_queues(world)
        for each in world.s3.list_objects_v2(Bucket=world.bucket).get("Contents", []):
            world.s3.delete_object(Bucket=world.bucket, Key=each["Key"])
        env.forget_moves()
        return env

    def arranged(self, scenario: str) -> Environment:
        """The stage of a scenario before anything happens."""
        env = self.empty_environment()
        if scenario in self.kept:
            self.kept[scenario].restore(env, self.admin)
            return env
        SCENARIOS[scenario].arrange(env)
        if SCENARIOS[scenario].keeps:
            self.kept[scenario] = SavedState.of(env, self.admin)
        return env

    def play(self, scenario: str, points: Points) -> Environment:
        """Arrange a stage, start a container, let it act until it is done, fails or is killed."""
        env = self.arranged(scenario)
        container = Container.started(env.world, points, sqs=env.sqs)
        with container as started, suppress(Killed, DependencyUnavailable):
            SCENARIOS[scenario].act(env, started)
        env.packs.during = None
        points.land()
        return env


def _new_queues(world: World) -> str:
    """Give the world a queue of its own, and that one a queue of dead letters, whose URL comes back."""
    name = f"crash-{uuid4().hex}"
    dead = str(world.sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"])
    arn = world.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": _MAX_RECEIVES})
    attributes = {"VisibilityTimeout": "120", "RedrivePolicy": redrive}
    world.queue_url = world.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    world.queue = Queue(world.queue_url, lambda: world.sqs)
    return dead


def recorded(servers: CrashServers) -> list[Point]:
    """The calls of every scenario, as they are made where nothing goes wrong."""
    found: list[Point] = []
    for scenario in SCENARIOS:
        points = Points(scenario)
        servers.play(scenario, points)
        found += points.met
    return found
