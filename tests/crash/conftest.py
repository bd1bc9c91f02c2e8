"""One set of servers for the whole matrix: new ones would take longer than a test."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from dpp_cli.local.servers import PostgresServer, ValkeyServer
from tests.crash.crashes import REDIS_DATABASE, RunCrashes
from tests.support.databases import new_database
from tests.support.memory_s3 import MemoryS3
from tests.support.memory_sqs import MemorySqs
from tests.support.world import World


@pytest.fixture(scope="session")
def crashes(postgres_server: PostgresServer, valkey_server: ValkeyServer) -> Iterator[RunCrashes]:
    """The matrix, on a database of its own and a database of Valkey of its own."""
    url = new_database(postgres_server)
    redis_url = f"{valkey_server.url.rpartition('/')[0]}/{REDIS_DATABASE}"
    with (
        World.open(url, redis_url, sqs=MemorySqs(), s3=MemoryS3()) as world,
        psycopg.connect(url, autocommit=True) as admin,
        closing(RunCrashes(world, admin)) as opened,
    ):
        yield opened
