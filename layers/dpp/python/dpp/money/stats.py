"""Ledger statistics for metrics and `dpp top`: what reconcile found, and what tenants have left. Writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.money.ledger import Ledger, whole_number
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rate_limit import requests_left
from dpp.platform.db.redis import unavailable_as_typed
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.money", "stats.sql")
RECENT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Stats:
    """`drift_usd_micros`: drift repaired in the last five minutes, plus the drift of disputed ledgers. `rebuilt`:
    balances rebuilt in these five minutes because they had drifted or were lost. `disputed`: ledgers that wait for an
    operator."""

    drift_usd_micros: int
    rebuilt: int
    disputed: int


@dataclass(frozen=True, slots=True)
class TenantBalance:
    """The budget and the requests of a tenant. `balance_usd_micros`: None if Redis holds no number. `requests_left`:
    whole requests that its rate limit allows now, None if it sent none for two minutes."""

    tenant_id: str
    balance_usd_micros: int | None
    requests_left: int | None


def read_stats(connection: Connection, now: datetime | None = None) -> Stats:
    """The current statistics."""
    params = {"seconds": RECENT_SECONDS, "now": now}
    (row,) = connection.execute(QUERIES["drift"], params).fetchall()
    return Stats(int(row[0]), int(row[1]), int(row[2]))


def read_balances(ledger: Ledger, tenants: Sequence[tuple[str, int]]) -> list[TenantBalance]:
    """The balances of tenants, each given with its rate limit a minute, in one round trip. Raises RedisUnavailable."""
    if not tenants:
        return []
    keys = ledger.keys
    with unavailable_as_typed():
        seconds, micros = ledger.client.time()
        pipeline = ledger.client.pipeline(transaction=False)
        for tenant_id, _ in tenants:
            pipeline.get(keys.balance(tenant_id))
            pipeline.hmget(keys.rate_limit(tenant_id), ["parts", "at_ms"])
        replies = pipeline.execute()
    now_ms = int(seconds) * 1_000 + int(micros) // 1_000
    return [
        TenantBalance(tenant_id, whole_number(balance), requests_left(bucket[0], bucket[1], limit, now_ms))
        for (tenant_id, limit), balance, bucket in zip(tenants, replies[::2], replies[1::2], strict=True)
    ]
