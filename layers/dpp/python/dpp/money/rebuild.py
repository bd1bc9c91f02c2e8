"""Write a tenant's balance in Redis anew from Postgres alone (D2): a lost cache loses no money.

Safe under traffic. While the Redis script runs, Postgres lets no run be inserted, claimed or committed and no
credit be entered, so what it says holds. What Redis knows better is kept: a receipt (the money has moved, the
commit is still to come) and a reservation whose insert is still to come. A crash before the script changes
nothing; after it, all is done.
"""

import json
from dataclasses import dataclass

from dpp.money.ledger import Ledger, read_balance
from dpp.platform.errors import RedisUnavailable
from dpp.platform.postgres import Connection
from dpp.platform.redis import unavailable_as_typed
from dpp.platform.sql import Queries

_QUERIES = Queries("dpp.money", "queries.sql")
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found and left, in micros. `before_usd_micros` is None where Redis held no number."""

    tenant_id: str
    before_usd_micros: int | None
    balance_usd_micros: int
    in_flight_usd_micros: int


def is_lost(connection: Connection, ledger: Ledger, tenant_id: str) -> bool:
    """Whether Redis holds no balance for a tenant that was given money: its data are gone."""
    if ledger.balance(tenant_id) is not None:
        return False
    return connection.execute(_QUERIES["has_credits"], {"tenant_id": tenant_id}).fetchone() is not None


def rebuild(connection: Connection, ledger: Ledger, tenant_id: str) -> Rebuilt:
    """Rebuild one tenant's balance and index. Raises LookupError for an unknown tenant.

    Writes to `runs` wait meanwhile, for milliseconds; it gives up after 5 s without the lock. What Redis does
    meanwhile moves the balance, and then the script refuses and is asked again with what is true by then: a script
    that lands late, its asker long dead, so changes nothing either.
    """
    params: dict[str, object] = {"tenant_id": tenant_id}
    with connection.transaction():
        connection.execute(_QUERIES["bound_the_wait"])
        connection.execute(_QUERIES["stop_writes_to_runs"])
        if connection.execute(_QUERIES["lock_credits"], params).fetchone() is None:
            raise LookupError(f"no tenant {tenant_id}")
        for _ in range(_TRIES):
            rebuilt = _write_anew(connection, ledger, tenant_id)
            if rebuilt is not None:
                return rebuilt
    raise RedisUnavailable("the balance never rested")


def _write_anew(connection: Connection, ledger: Ledger, tenant_id: str) -> Rebuilt | None:
    """One try; None where the balance moved between the look and the script."""
    params: dict[str, object] = {"tenant_id": tenant_id}
    before = ledger.balance_text(tenant_id) or ""
    with unavailable_as_typed():
        entered = [str(run_id) for run_id in ledger.client.hkeys(ledger.keys.reservation_amounts(tenant_id))]
    row = connection.execute(_QUERIES["position"], params).fetchone()
    if row is None:
        raise LookupError(f"no tenant {tenant_id}")
    open_runs = [(str(run), str(amount)) for run, amount in connection.execute(_QUERIES["open_runs"], params)]
    closed = connection.execute(_QUERIES["closed_among"], params | {"run_ids": entered})
    told = {
        "open": open_runs,
        "closed": [str(found[0]) for found in closed],
        "credits": [str(found[0]) for found in connection.execute(_QUERIES["credit_ids"], params)],
    }
    written = ledger.write_anew(
        tenant_id, int(row[0]) - int(row[1]), [run for run, _ in open_runs], json.dumps(told), before
    )
    if written is None:
        return None
    balance, in_flight = written
    known_before = int(before) if before.lstrip("-").isdecimal() else None
    return Rebuilt(tenant_id, known_before, read_balance(balance), int(in_flight))
