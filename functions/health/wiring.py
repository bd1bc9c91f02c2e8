"""What the health function asks, built once a container."""

import os
from collections.abc import Mapping
from functools import cache

from dpp.platform import redis
from dpp.platform.health import Probe
from dpp.platform.postgres import Database
from dpp.platform.queue import Queue
from dpp.platform.storage import ObjectStore

from health.settings import HealthSettings


@cache
def probes() -> Mapping[str, Probe]:
    """One question for each of database, Redis, S3 and SQS (RUN-32)."""
    settings = HealthSettings.load(os.environ)
    database = Database(settings.database_url)
    client = redis.connect(settings.redis_url, cluster=settings.redis_cluster)

    def ask_postgres() -> None:
        with database.connection() as connection:
            connection.execute("SELECT 1")

    def ask_redis() -> None:
        with redis.unavailable_as_typed():
            client.ping()

    return {
        "postgres": ask_postgres,
        "redis": ask_redis,
        "s3": ObjectStore(settings.results_bucket).ping,
        "sqs": Queue(settings.run_queue_url).ping,
    }
