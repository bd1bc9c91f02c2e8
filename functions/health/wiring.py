"""What the health function asks, built once a container."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dpp.platform import redis
from dpp.platform.health import Probe
from dpp.platform.postgres import Database
from dpp.platform.queue import Queue
from dpp.platform.redis import RedisClient
from dpp.platform.storage import ObjectStore
from health.settings import HealthSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """One question for each of database, Redis, S3 and SQS (RUN-32), and the connections that they are asked on."""

    database: Database
    redis: RedisClient
    probes: Mapping[str, Probe]


def probes_of(
    database: Database, client: RedisClient, storage: ObjectStore, queue: Queue
) -> Mapping[str, Probe]:
    """The questions, by the dependency's name."""

    def ask_postgres() -> None:
        with database.connection() as connection:
            connection.execute("SELECT 1")

    def ask_redis() -> None:
        with redis.unavailable_as_typed():
            client.ping()

    return {"postgres": ask_postgres, "redis": ask_redis, "s3": storage.ping, "sqs": queue.ping}


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = HealthSettings.load(os.environ)
    database = Database(settings.database_url)
    client = redis.connect(settings.redis_url, cluster=settings.redis_cluster)
    storage, queue = ObjectStore(settings.results_bucket), Queue(settings.run_queue_url)
    return Wiring(database, client, probes_of(database, client, storage, queue))
