"""Rewrite a tenant's balance in Redis from Postgres (D2): a lost cache loses no money.

Safe under traffic. While the Redis script runs, Postgres accepts no insert, claim or commit of a run and no credit, so
the books stay true. What only Redis knows is kept: a receipt (the money has moved, the commit is missing) and a
reservation whose run is not inserted yet. A crash before the script changes nothing; after it, only the row in
`ledger_rebuilds` is missing, and the log has the same fields.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dpp.money.books import QUERIES, read_books
from dpp.money.ledger import Ledger, whole_number
from dpp.platform.db.postgres import Connection
from dpp.platform.errors import RedisUnavailable

_LOG = logging.getLogger("dpp.money.rebuild")
_TRIES = 50


class RebuildReason(StrEnum):
    """The reason for rewriting a balance."""

    CREDIT = "CREDIT"
    """A credit found no balance: it is the tenant's first, or Redis had lost the balance."""
    LOST = "LOST"
    """Redis had no balance for a tenant with credits."""
    DRIFT = "DRIFT"
    """The balance was there and wrong."""
    OPERATOR = "OPERATOR"
    """`dpp ledger rebuild`."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The balance before and after a rebuild, in micros. `before_usd_micros` is None if Redis held no number."""

    tenant_id: str
    before_usd_micros: int | None
    balance_usd_micros: int
    in_flight_usd_micros: int
    missing_reservations: int


@dataclass(frozen=True, slots=True)
class PastRebuild:
    """One row of `ledger_rebuilds`; amounts in micros."""

    tenant_id: str
    reason: RebuildReason
    before_usd_micros: int | None
    balance_usd_micros: int
    missing_reservations: int
    created_at: datetime


def past_rebuilds(connection: Connection, tenant_id: str | None, limit: int) -> list[PastRebuild]:
    """Up to `limit` rebuilds, newest first, of one tenant or of all."""
    rows = connection.execute(QUERIES["rebuilds"], {"tenant_id": tenant_id, "limit": limit})
    return [PastRebuild(tenant, RebuildReason(reason), *rest) for tenant, reason, *rest in rows]


def is_lost(connection: Connection, ledger: Ledger, tenant_id: str) -> bool:
    """True if Redis holds no balance, or a value that is no number, for a tenant that has credits."""
    if whole_number(ledger.balance_text(tenant_id)) is not None:
        return False
    return connection.execute(QUERIES["has_credits"], {"tenant_id": tenant_id}).fetchone() is not None


def rebuild(connection: Connection, ledger: Ledger, tenant_id: str, reason: RebuildReason) -> Rebuilt:
    """Rebuild one tenant's balance and index. Raises LookupError for an unknown tenant.

    Writes to `runs` wait meanwhile, for milliseconds; after 5 s without the lock it gives up. A Redis move meanwhile
    changes the balance: the script then refuses, and is tried again with fresh books. So a script that arrives late,
    after its caller has died, changes nothing either.
    """
    params: dict[str, object] = {"tenant_id": tenant_id}
    with connection.transaction():
        connection.execute(QUERIES["bound_the_wait"])
        connection.execute(QUERIES["stop_writes_to_runs"])
        if connection.execute(QUERIES["lock_credits"], params).fetchone() is None:
            raise LookupError(f"no tenant {tenant_id}")
        for _ in range(_TRIES):
            rebuilt = _rewrite(connection, ledger, tenant_id)
            if rebuilt is not None:
                _record(connection, rebuilt, reason)
                return rebuilt
    raise RedisUnavailable("the balance never rested")


def _rewrite(connection: Connection, ledger: Ledger, tenant_id: str) -> Rebuilt | None:
    """One try; None if the balance changed before the script ran."""
    before = ledger.balance_text(tenant_id) or ""
    books = read_books(connection, tenant_id, ledger.open_reservations(tenant_id))
    written = ledger.rewrite(tenant_id, books, before)
    if written is None:
        return None
    return Rebuilt(
        tenant_id,
        whole_number(before),
        written.balance_usd_micros,
        written.in_flight_usd_micros,
        written.missing_reservations,
    )


def _record(connection: Connection, rebuilt: Rebuilt, reason: RebuildReason) -> None:
    """Record a rebuild that changed something: first in the log, because Redis is changed even if the row fails."""
    if rebuilt.before_usd_micros == rebuilt.balance_usd_micros and not rebuilt.missing_reservations:
        return
    entry = {
        "tenant_id": rebuilt.tenant_id,
        "reason": reason,
        "before_usd_micros": rebuilt.before_usd_micros,
        "balance_usd_micros": rebuilt.balance_usd_micros,
        "missing_reservations": rebuilt.missing_reservations,
    }
    level = logging.INFO if reason == RebuildReason.CREDIT else logging.WARNING
    _LOG.log(level, "balance rebuilt", extra=entry)
    connection.execute(QUERIES["record_rebuild"], entry)
