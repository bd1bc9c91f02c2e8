"""Servers, databases and tenants for the benches. All servers end with the block that started them."""

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import redis

from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.platform.keys import api_keys
from dpp.platform.keys.tokens import MintedKey
from dpp_cli import migrate
from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.local.servers import PostgresServer, ValkeyServer
from dpp_cli.paths import BUILD

TENANT = "t_bench"
REQUESTS_PER_MINUTE = 1_000_000
_CREDIT_USD_MICROS = 10**12


class Servers:
    """One Postgres server with a database for each side, and a Valkey server for each side that needs one."""

    def __init__(self, folder: Path, stack: ExitStack, durable: bool) -> None:
        self.folder, self._stack = folder, stack
        self.postgres = PostgresServer.start(folder / "postgres", durable=durable, outlives_starter=False)
        stack.callback(self.postgres.stop)

    def enter[T](self, context: AbstractContextManager[T]) -> T:
        """Enter a context that ends with the servers."""
        return self._stack.enter_context(context)

    def database(self, name: str, *, migrated: bool = True) -> str:
        """Create a database and return its URL."""
        with psycopg.connect(self.postgres.url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())
        if migrated:
            migrate.upgrade(self.postgres.url(name))
        return self.postgres.url(name)

    def valkey(self, name: str = "valkey", appendfsync: str | None = None) -> ValkeyServer:
        """Start a server that keeps an append-only file as `appendfsync` says, or keeps nothing on disk."""
        durable = appendfsync is not None
        server = ValkeyServer.start(self.folder / name, durable=durable, outlives_starter=False)
        self._stack.callback(server.stop)
        if appendfsync is not None:
            with redis.Redis.from_url(server.url) as client:
                client.config_set("appendfsync", appendfsync)
        return server


@contextmanager
def servers(*, durable: bool = True) -> Iterator[Servers]:
    """Start Postgres; `durable` means that it flushes to disk."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpp-bench-")))
        folder.chmod(0o755)  # Postgres may run as another user and must reach its folder
        yield Servers(folder, stack, durable)


@dataclass(frozen=True, slots=True)
class Place:
    """The database, the Redis and the stand-in for AWS that one side uses; empty where it uses none."""

    database_url: str = ""
    redis_url: str = ""
    endpoint: str = ""

    @property
    def queue_url(self) -> str:
        return f"{self.endpoint}/000000000000/runs"

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables that the functions' wirings read."""
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "DPP_RUN_QUEUE_URL": self.queue_url,
            "DPP_RESULTS_BUCKET": "results",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "POWERTOOLS_LOG_LEVEL": "INFO",
            "POWERTOOLS_METRICS_NAMESPACE": "bench",
        }

    def create_tenant(self) -> MintedKey:
        """Create `TENANT` with enough credit for every bench, and mint its API key."""
        minted, ledger = api_keys.mint(), Ledger.connect(self.redis_url)
        with psycopg.connect(self.database_url, autocommit=True) as connection, closing(ledger.client):
            create_tenant(connection, TENANT, "Bench", REQUESTS_PER_MINUTE)
            api_keys.store(connection, minted, TENANT)
            add_credit(connection, ledger, TENANT, _CREDIT_USD_MICROS)
        return minted

    def row(self, query: LiteralString) -> tuple[Any, ...]:
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return row

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())


def add_credit(connection: psycopg.Connection[Any], ledger: Ledger, tenant_id: str, usd_micros: int) -> None:
    credit(connection, ledger, credit_id=uuid4(), tenant_id=tenant_id, amount_usd_micros=usd_micros, reason="bench")


def use(place: Place) -> None:
    """Set this process's environment to a place, before a function's wiring reads it."""
    os.environ.update(place.environ)


def import_peer(name: str, packages: Path) -> Any:
    """A peer's package. Our own packages come first on the path: those that both need have one version, by one lock."""
    if str(packages) not in sys.path:
        sys.path.append(str(packages))
    return importlib.import_module(name)


def peer_packages() -> Path:
    """The folder with the peers' packages, installed if need be."""
    return build_packages_layer(BUILD / "layers" / "bench", ["--only-group", "bench"]) / "python"
