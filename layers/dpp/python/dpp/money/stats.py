"""How the money stands, for who watches: what reconcile found, and what tenants have left. Nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.money.ledger import Ledger, whole_number
from dpp.platform.db.postgres import Connection
from dpp.platform.db.rate_limit import requests_left
from dpp.platform.db.redis import unavailable_as_typed
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.money", "stats.sql")
LATELY_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Standing:
    """`drift_usd_micros`: what balances were off, of those repaired within five minutes and those that are disputed.
    `rebuilt`: balances written anew within these, since they were off or lost. `disputed`: ledgers of tenants that wait
    for an operator."""

    drift_usd_micros: int
    rebuilt: int
    disputed: int


@dataclass(frozen=True, slots=True)
class Purse:
    """What a tenant has left. `balance_usd_micros`: None where Redis holds no number. `requests_left`: whole requests
    that its bucket lets through now, None where none came for two minutes."""

    tenant_id: str
    balance_usd_micros: int | None
    requests_left: int | None


def standing(connection: Connection, now: datetime | None = None) -> Standing:
    """As it stands."""
    params = {"seconds": LATELY_SECONDS, "now": now}
    (row,) = connection.execute(QUERIES["drift"], params).fetchall()
    return Standing(int(row[0]), int(row[1]), int(row[2]))


def purses(ledger: Ledger, tenants: Sequence[tuple[str, int]]) -> list[Purse]:
    """What each of these tenants has left, in one trip; each with its requests a minute. Raises RedisUnavailable."""
    if not tenants:
        return []
    keys = ledger.keys
    with unavailable_as_typed():
        seconds, micros = ledger.client.time()
        asked = ledger.client.pipeline(transaction=False)
        for tenant_id, _ in tenants:
            asked.get(keys.balance(tenant_id))
            asked.hmget(keys.rate_limit(tenant_id), ["parts", "at_ms"])
        said = asked.execute()
    now_ms = int(seconds) * 1_000 + int(micros) // 1_000
    return [
        Purse(tenant_id, whole_number(balance), requests_left(bucket[0], bucket[1], limit, now_ms))
        for (tenant_id, limit), balance, bucket in zip(tenants, said[::2], said[1::2], strict=True)
    ]
