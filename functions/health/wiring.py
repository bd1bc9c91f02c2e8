"""What the health function asks, built once a container."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from dpp.platform.aws.clients import s3_client, sqs_client
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db import redis
from dpp.platform.db.postgres import Database
from dpp.platform.db.redis import RedisClient
from dpp.platform.observability.health import Probe
from dpp.platform.retry import with_retries
from health.settings import HealthSettings

_REPLY_TIMEOUT_SECONDS = 2.0


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

    def select_one() -> None:
        with database.connection() as connection:
            connection.execute("SELECT 1")

    def ask_postgres() -> None:
        with_retries(select_one, pauses_seconds=(0.0,))  # the connection may have died since the last probe

    def ask_redis() -> None:
        with redis.unavailable_as_typed():
            client.ping()

    return {"postgres": ask_postgres, "redis": ask_redis, "s3": storage.ping, "sqs": queue.ping}


@cache
def wiring() -> Wiring:
    """Read the environment and build, with timeouts that let even the silent be named before the function's end."""
    settings = HealthSettings.load(os.environ)
    database = Database(settings.database, reply_timeout_seconds=_REPLY_TIMEOUT_SECONDS)
    client = redis.connect(
        settings.redis, cluster=settings.redis_cluster, timeout_seconds=_REPLY_TIMEOUT_SECONDS
    )
    # Made here and not by the probes' threads: boto3 makes no two clients at once.
    s3, sqs = s3_client(attempts=1), sqs_client(attempts=1)
    storage, queue = (
        ObjectStore(settings.results_bucket, lambda: s3),
        Queue(settings.run_queue_url, lambda: sqs),
    )
    return Wiring(database, client, probes_of(database, client, storage, queue))
