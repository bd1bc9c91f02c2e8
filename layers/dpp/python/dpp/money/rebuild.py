"""Write a tenant's balance in Redis anew from Postgres alone (D2): a lost cache loses no money.

Safe under traffic. While the Redis script runs, Postgres lets no run be inserted, claimed or committed and no
credit be entered, so what it says holds. What Redis knows better is kept: a receipt (the money has moved, the
commit is still to come) and a reservation whose insert is still to come. A crash before the script changes
nothing; after it, all is done but the entry in `ledger_rebuilds`, of which the log has the same.
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
    """Why a balance was written anew."""

    CREDIT = "CREDIT"
    """A credit met no balance: it is the tenant's first, or Redis had lost the others."""
    LOST = "LOST"
    """Redis had no balance of a tenant with credits."""
    DRIFT = "DRIFT"
    """The balance was there and wrong."""
    OPERATOR = "OPERATOR"
    """`dpp ledger rebuild`."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild found and left, in micros. `before_usd_micros` is None where Redis held no number."""

    tenant_id: str
    before_usd_micros: int | None
    balance_usd_micros: int
    in_flight_usd_micros: int
    missing_reservations: int


@dataclass(frozen=True, slots=True)
class PastRebuild:
    """One entry of the record of rebuilds, in micros."""

    tenant_id: str
    reason: RebuildReason
    before_usd_micros: int | None
    balance_usd_micros: int
    missing_reservations: int
    created_at: datetime


def past_rebuilds(connection: Connection, tenant_id: str | None, limit: int) -> list[PastRebuild]:
    """The newest `limit` rebuilds, of one tenant or of all, the newest first."""
    rows = connection.execute(QUERIES["rebuilds"], {"tenant_id": tenant_id, "limit": limit})
    return [PastRebuild(tenant, RebuildReason(reason), *rest) for tenant, reason, *rest in rows]


def is_lost(connection: Connection, ledger: Ledger, tenant_id: str) -> bool:
    """Whether Redis holds no balance, or no number for one, of a tenant that was given money."""
    if whole_number(ledger.balance_text(tenant_id)) is not None:
        return False
    return connection.execute(QUERIES["has_credits"], {"tenant_id": tenant_id}).fetchone() is not None


def rebuild(connection: Connection, ledger: Ledger, tenant_id: str, reason: RebuildReason) -> Rebuilt:
    """Rebuild one tenant's balance and index. Raises LookupError for an unknown tenant.

    Writes to `runs` wait meanwhile, for milliseconds; it gives up after 5 s without the lock. What Redis does
    meanwhile moves the balance, and then the script refuses and is asked again with what is true by then: a script
    that lands late, its asker long dead, so changes nothing either.
    """
    params: dict[str, object] = {"tenant_id": tenant_id}
    with connection.transaction():
        connection.execute(QUERIES["bound_the_wait"])
        connection.execute(QUERIES["stop_writes_to_runs"])
        if connection.execute(QUERIES["lock_credits"], params).fetchone() is None:
            raise LookupError(f"no tenant {tenant_id}")
        for _ in range(_TRIES):
            rebuilt = _write_anew(connection, ledger, tenant_id)
            if rebuilt is not None:
                _record(connection, rebuilt, reason)
                return rebuilt
    raise RedisUnavailable("the balance never rested")


def _write_anew(connection: Connection, ledger: Ledger, tenant_id: str) -> Rebuilt | None:
    """One try; None where the balance moved between the look and the script."""
    before = ledger.balance_text(tenant_id) or ""
    books = read_books(connection, tenant_id, ledger.entered(tenant_id))
    written = ledger.write_anew(tenant_id, books, before)
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
    """Leave a trace, in the log first: what Redis holds is changed by now, whatever becomes of the row."""
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
    _LOG.log(level, "balance written anew", extra=entry)
    connection.execute(QUERIES["record_rebuild"], entry)
