"""GET /healthz and /readyz (RUN-32), and the 404 of every path that no other function serves."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.platform.aws.clients import s3_client, sqs_client
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings, StorageSettings
from dpp.platform.db import redis
from dpp.platform.db.postgres import Database
from dpp.platform.db.redis import RedisClient
from dpp.platform.http.api import Api
from dpp.platform.observability.health import Probe, readiness
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.retry import with_retries
from dpp.runs.api.problems import PROBLEMS, error_headers

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)
_REPLY_TIMEOUT_SECONDS = 2.0


class HealthSettings(PostgresSettings, RedisSettings, QueueSettings, StorageSettings):
    """Every dependency that `/readyz` probes (RUN-32)."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """A probe each for Postgres, Redis, S3 and SQS (RUN-32), and the connections that they use."""

    database: Database
    redis: RedisClient
    probes: Mapping[str, Probe]


def probes_of(database: Database, client: RedisClient, storage: ObjectStore, queue: Queue) -> Mapping[str, Probe]:
    """The probes by the dependency's name."""

    def select_one() -> None:
        with database.connection() as connection:
            connection.execute("SELECT 1")

    def probe_postgres() -> None:
        with_retries(select_one, pauses_seconds=(0.0,))  # the connection may have died since the last probe

    def probe_redis() -> None:
        with redis.unavailable_as_typed():
            client.ping()

    return {"postgres": probe_postgres, "redis": probe_redis, "s3": storage.ping, "sqs": queue.ping}


@cache
def wiring() -> Wiring:
    """Read the environment and build. The timeouts are short, so that a silent dependency is reported in time."""
    settings = HealthSettings.load()
    database = Database(settings.database, reply_timeout_seconds=_REPLY_TIMEOUT_SECONDS)
    client = redis.connect(settings.redis, cluster=settings.redis_cluster, timeout_seconds=_REPLY_TIMEOUT_SECONDS)
    # Created here and not by the probes' threads: boto3 cannot create two clients at once.
    s3, sqs = s3_client(attempts=1), sqs_client(attempts=1)
    storage = ObjectStore(settings.results_bucket, lambda: s3)
    return Wiring(database, client, probes_of(database, client, storage, Queue(settings.run_queue_url, lambda: sqs)))


@api.route("GET", "/healthz")
def healthz() -> Response[str]:
    """The function runs; no dependency is probed."""
    return api.json(200, {"status": "ok"}, error_headers(None))


@api.route("GET", "/readyz")
def readyz() -> Response[str]:
    """200 when database, Redis, S3 and SQS answer; otherwise 503 with the state of each."""
    answers = readiness(wiring().probes)
    ready = all(answers.values())
    checks = {name: "ok" if answered else "unavailable" for name, answered in answers.items()}
    body = {"status": "ok" if ready else "unavailable", "checks": checks}
    return api.json(200 if ready else 503, body, error_headers(None))


handler = invocation(logger, meter)(api.answer)
