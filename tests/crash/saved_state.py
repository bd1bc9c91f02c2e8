"""An arranged stage, kept so that the next test of its scenario begins with a copy: to arrange one takes longer."""

from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from redis import Redis

from dpp.packs.contract import PackResult
from tests.crash.environment import Client, Environment
from tests.support.world import Tenant

_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  AND NOT relispartition AND relname <> 'alembic_version'
"""


@dataclass(frozen=True, slots=True)
class SavedState:
    """What stood in Postgres, Redis and S3, and what the stage knew."""

    schema: str
    keys: dict[bytes, tuple[int, bytes]]
    objects: dict[str, bytes]
    start: datetime
    elapsed_seconds: int
    moves: int
    redis_lost_writes: bool
    tenants: list[Tenant]
    clients: list[Client]
    started: Counter[str]
    answers: dict[str, list[PackResult]]

    @classmethod
    def of(cls, env: Environment, admin: psycopg.Connection[Any]) -> Self:
        """Keep a stage."""
        schema = f"kept_{uuid4().hex}"
        admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for_each_table(admin, "CREATE TABLE " + schema + ".{0} AS TABLE public.{0}")
        return cls(
            schema=schema,
            keys=_dumped(env),
            objects=env.objects(),
            start=env.clock.start,
            elapsed_seconds=env.clock.elapsed_seconds,
            moves=env.moves(),
            redis_lost_writes=env.redis_lost_writes,
            tenants=list(env.tenants),
            clients=deepcopy(env.clients),
            started=Counter(env.packs.started),
            answers=deepcopy(dict(env.packs.answers)),
        )

    def restore(self, env: Environment, admin: psycopg.Connection[Any]) -> None:
        """Bring an empty stage to where the kept one was."""
        copy = "INSERT INTO public.{0} OVERRIDING SYSTEM VALUE SELECT * FROM " + self.schema + ".{0}"
        for_each_table(admin, copy)
        with _binary(env).pipeline(transaction=False) as told:
            for key, (left_ms, value) in self.keys.items():
                told.restore(key, max(left_ms, 0), value)
            told.execute()
        for name, body in self.objects.items():
            env.world.s3.put_object(Bucket=env.world.bucket, Key=name, Body=body)
        env.forget_moves(self.moves)
        env.clock.start, env.clock.elapsed_seconds = self.start, self.elapsed_seconds
        env.redis_lost_writes = self.redis_lost_writes
        env.tenants, env.clients = list(self.tenants), deepcopy(self.clients)
        env.packs.started = Counter(self.started)
        env.packs.answers = defaultdict(list, deepcopy(self.answers))


def for_each_table(admin: psycopg.Connection[Any], statement: str) -> None:
    """Do the same with every table of the platform, in one trip."""
    admin.execute("; ".join(statement.format(table) for table in _tables(admin)).encode())


@cache
def _tables(admin: psycopg.Connection[Any]) -> tuple[str, ...]:
    return tuple(row[0] for row in admin.execute(_TABLES))


def _dumped(env: Environment) -> dict[bytes, tuple[int, bytes]]:
    client = _binary(env)
    return {key: (client.pttl(key), client.dump(key)) for key in client.scan_iter(count=1_000)}


def _binary(env: Environment) -> Any:
    return _client_of_bytes(env.world.redis_url)


@cache
def _client_of_bytes(url: str) -> Any:
    """A client for dumps, which are no text."""
    return Redis.from_url(url)
