"""The continuous check of the ledger identity (D2): every tenant's balance held against Postgres, under traffic.

`audit.py` compares two sums, which agree at rest. Here what is under way is told from what is wrong: a settle
whose commit is still to come has a receipt, a reservation whose insert is still to come stands in the index, a
credit on its way is young. What none of them explains is drift: Redis lost writes (a failover), or somebody wrote. An
open run of which Redis holds neither reservation nor receipt is as wrong, whatever the balance says: its claim waits
until the reservation is entered anew.

The rows of Postgres prove what a balance must be, for no run is committed unless the ledger's receipt said the
same. Drift is therefore repaired by a rebuild, unless a receipt that still exists contradicts its run's row: then
one of the two was changed by other hands, nothing is guessed, and the tenant's ledger is DISPUTED until an operator
decides.

A crash before the rebuild changes nothing and the next firing measures again; one after it leaves only the record
of this look unwritten.
"""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from dpp.money.books import QUERIES, read_books
from dpp.money.ledger import RECEIPT_TTL_SECONDS, Ledger, whole_number
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.platform.db.postgres import Connection

_LOG = logging.getLogger("dpp.money.drift")
AUDIT_EVERY_SECONDS = 55
"""Reconcile fires each minute, so that each firing looks at every tenant while it has the time."""
_TRIES = 5
_CREDIT_ARRIVES_WITHIN_SECONDS = 300
_RUN_LASTS_SECONDS = 86_400
_PAGE_SIZE = 500
_DETAIL_RUNS = 5


class Verdict(StrEnum):
    """What a look at a tenant's books found."""

    BALANCED = "BALANCED"
    REPAIRED = "REPAIRED"
    DISPUTED = "DISPUTED"
    BUSY = "BUSY"
    """The balance never rested long enough to be measured, or was right at a second look."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A balance and what it must be, in micros. `balance_usd_micros` is None where Redis holds no number."""

    tenant_id: str
    balance_usd_micros: int | None
    due_usd_micros: int
    in_flight_usd_micros: int
    """Reserved by submits whose run is still to be inserted, or by nobody any more (orphans)."""
    missing_reservations: int = 0
    """Open runs whose reservation Redis has lost; the balance may be right all the same."""

    @property
    def drift_usd_micros(self) -> int:
        """Balance minus what it must be; positive: the client could spend what it doesn't have."""
        return (self.balance_usd_micros or 0) - self.due_usd_micros

    @property
    def is_well(self) -> bool:
        """Whether the balance is right and every open run has its reservation, or its receipt."""
        return self.drift_usd_micros == 0 and self.missing_reservations == 0


@dataclass(frozen=True, slots=True)
class Audit:
    """One look at one tenant's books; the drift as found, before a repair."""

    verdict: Verdict
    drift_usd_micros: int = 0
    detail: str | None = None


def due_audits(connection: Connection, now: datetime | None = None) -> list[str]:
    """The tenants not looked at for a while, the longest ago first; at most a firing's worth."""
    params = {"now": now, "every_seconds": AUDIT_EVERY_SECONDS, "limit": _PAGE_SIZE}
    return [str(row[0]) for row in connection.execute(QUERIES["due_audits"], params)]


def disputed_ledgers(connection: Connection) -> int:
    """How many tenants' ledgers wait for an operator."""
    row = connection.execute(QUERIES["disputed_ledgers"]).fetchone()
    return 0 if row is None else int(row[0])


def measure(connection: Connection, ledger: Ledger, tenant_id: str) -> Measure | None:
    """Measure a tenant's balance; None where it moved during each of five tries, or a drift was not found again.

    A measure counts only if the balance stood still from before Postgres was read until Redis reckoned. One that moved
    and came back to the same number (a charge, and a credit of as much) looks as if it had: so what is wrong counts
    only if a second look finds the same. Raises LookupError for an unknown tenant, RedisUnavailable; writes nothing.
    """
    first = _look_once(connection, ledger, tenant_id)
    if first is None or first.is_well:
        return first
    second = _look_once(connection, ledger, tenant_id)
    if second is None or second.is_well or second.drift_usd_micros != first.drift_usd_micros:
        return None
    return second


def _look_once(connection: Connection, ledger: Ledger, tenant_id: str) -> Measure | None:
    """One look; None where the balance moved during each of five tries."""
    for _ in range(_TRIES):
        before = ledger.balance_text(tenant_id) or ""
        entered = ledger.entered(tenant_id)
        books = read_books(connection, tenant_id, entered, _CREDIT_ARRIVES_WITHIN_SECONDS)
        reckoned = ledger.measure(tenant_id, books, before)
        if reckoned is not None:
            return Measure(
                tenant_id,
                whole_number(before),
                reckoned.balance_usd_micros,
                reckoned.in_flight_usd_micros,
                reckoned.missing_reservations,
            )
    return None


def audit(connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None = None) -> Audit:
    """Look at a tenant's books, repair what is provable, write down what was found (`ledger_audits`).

    Raises LookupError, RedisUnavailable.
    """
    found = _look(connection, ledger, tenant_id, now)
    entry = {
        "tenant_id": tenant_id,
        "verdict": found.verdict,
        "drift_usd_micros": found.drift_usd_micros,
        "detail": found.detail,
    }
    if found.verdict in {Verdict.REPAIRED, Verdict.DISPUTED}:
        _LOG.error("ledger drifted", extra=entry)
    connection.execute(QUERIES["record_audit"], entry | {"now": now})
    return found


def _look(connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None) -> Audit:
    measured = measure(connection, ledger, tenant_id)
    if measured is None:
        return Audit(Verdict.BUSY)
    if measured.is_well:
        return Audit(Verdict.BALANCED)
    drift = measured.drift_usd_micros
    contradicted = contradictions(connection, ledger, tenant_id, now)
    if contradicted:
        named = ", ".join(contradicted[:_DETAIL_RUNS])
        return Audit(
            Verdict.DISPUTED,
            drift,
            f"{len(contradicted)} receipts differ from the rows of their runs: {named}",
        )
    rebuild(connection, ledger, tenant_id, RebuildReason.DRIFT)
    return Audit(Verdict.REPAIRED, drift)


def contradictions(
    connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None = None
) -> list[str]:
    """The runs that ended while receipts last (7 days) and whose receipt says another charge than their row."""
    params: dict[str, object] = {
        "tenant_id": tenant_id,
        "age_seconds": RECEIPT_TTL_SECONDS + _RUN_LASTS_SECONDS,
        "after_time": datetime(1, 1, 1, tzinfo=UTC),
        "after_id": UUID(int=0),
        "limit": _PAGE_SIZE,
        "now": now,
    }
    found: list[str] = []
    while True:
        rows = connection.execute(QUERIES["closed_since"], params).fetchall()
        receipts = ledger.receipts(tenant_id, [str(row[0]) for row in rows])
        for (run_id, money_state, charge, _), receipt in zip(rows, receipts, strict=True):
            if receipt is not None and receipt != (money_state, str(charge)):
                found.append(str(run_id))
        if len(rows) < _PAGE_SIZE:
            return found
        params |= {"after_time": rows[-1][3], "after_id": rows[-1][0]}
