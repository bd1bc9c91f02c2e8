"""The continuous audit of the ledger identity (D2): each tenant's balance is compared with Postgres, under traffic.

`audit.py` compares two sums that agree when nothing is under way. Here work under way is recognised: a settle before
its commit has a receipt, a reservation before its insert is in the index, a credit under way is young. A difference
that none of these explains is drift: Redis lost writes (a failover), or somebody wrote to it. An open run for which
Redis holds neither reservation nor receipt is wrong too, whatever the balance: its claim waits until the reservation
is entered again.

The rows of Postgres prove what a balance must be, because a run is committed only if its receipt said the same. So
drift is repaired by a rebuild, unless a receipt that still exists contradicts its run's row. Then one of the two was
changed from outside, nothing is guessed, and the tenant's ledger is DISPUTED until an operator decides.

A crash before the rebuild changes nothing, and the next tick measures again. A crash after it leaves only the row of
this audit unwritten.
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
"""Reconcile ticks each minute, so each tick audits every tenant as long as time allows."""
_TRIES = 5
_CREDIT_ARRIVES_WITHIN_SECONDS = 300
_RUN_LASTS_SECONDS = 86_400
_PAGE_SIZE = 500
_DETAIL_RUNS = 5


class Verdict(StrEnum):
    """The result of an audit."""

    BALANCED = "BALANCED"
    REPAIRED = "REPAIRED"
    DISPUTED = "DISPUTED"
    BUSY = "BUSY"
    """The balance kept changing and could not be measured, or was right when measured again."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A balance and what it must be, in micros. `balance_usd_micros` is None if Redis holds no number."""

    tenant_id: str
    balance_usd_micros: int | None
    due_usd_micros: int
    in_flight_usd_micros: int
    """Reserved by submits that have not inserted their run, or never will (orphans)."""
    missing_reservations: int = 0
    """Open runs whose reservation Redis has lost; the balance may be right even so."""

    @property
    def drift_usd_micros(self) -> int:
        """Balance minus what it must be; above zero, the tenant could spend money that it doesn't have."""
        return (self.balance_usd_micros or 0) - self.due_usd_micros

    @property
    def is_correct(self) -> bool:
        """True if the balance is right and every open run has its reservation or its receipt."""
        return self.drift_usd_micros == 0 and self.missing_reservations == 0


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit of one tenant; the drift as found, before a repair."""

    verdict: Verdict
    drift_usd_micros: int = 0
    detail: str | None = None


def due_audits(connection: Connection, now: datetime | None = None) -> list[str]:
    """The tenants whose last audit is oldest; at most one tick's worth."""
    params = {"now": now, "every_seconds": AUDIT_EVERY_SECONDS, "limit": _PAGE_SIZE}
    return [str(row[0]) for row in connection.execute(QUERIES["due_audits"], params)]


def disputed_ledgers(connection: Connection) -> int:
    """The number of ledgers that wait for an operator."""
    row = connection.execute(QUERIES["disputed_ledgers"]).fetchone()
    return 0 if row is None else int(row[0])


def measure(connection: Connection, ledger: Ledger, tenant_id: str) -> Measure | None:
    """Measure a tenant's balance; None if it changed during each of five tries, or drift was not found again.

    A measure counts only if the balance did not change from before Postgres was read until Redis calculated. A balance
    that changed and came back (a charge, and a credit of the same amount) looks unchanged: so drift counts only if a
    second measure finds the same. Raises LookupError for an unknown tenant, RedisUnavailable; writes nothing.
    """
    first = _measure_once(connection, ledger, tenant_id)
    if first is None or first.is_correct:
        return first
    second = _measure_once(connection, ledger, tenant_id)
    if second is None or second.is_correct or second.drift_usd_micros != first.drift_usd_micros:
        return None
    return second


def _measure_once(connection: Connection, ledger: Ledger, tenant_id: str) -> Measure | None:
    """One measure; None if the balance changed during each of five tries."""
    for _ in range(_TRIES):
        before = ledger.balance_text(tenant_id) or ""
        reserved = ledger.open_reservations(tenant_id)
        books = read_books(connection, tenant_id, reserved, _CREDIT_ARRIVES_WITHIN_SECONDS)
        due = ledger.measure(tenant_id, books, before)
        if due is not None:
            return Measure(
                tenant_id,
                whole_number(before),
                due.balance_usd_micros,
                due.in_flight_usd_micros,
                due.missing_reservations,
            )
    return None


def audit(connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None = None) -> Audit:
    """Audit a tenant, repair drift that Postgres proves, and record the result in `ledger_audits`.

    Raises LookupError, RedisUnavailable.
    """
    found = _audit(connection, ledger, tenant_id, now)
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


def _audit(connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None) -> Audit:
    measured = measure(connection, ledger, tenant_id)
    if measured is None:
        return Audit(Verdict.BUSY)
    if measured.is_correct:
        return Audit(Verdict.BALANCED)
    drift = measured.drift_usd_micros
    contradicted = contradictions(connection, ledger, tenant_id, now)
    if contradicted:
        listed = ", ".join(contradicted[:_DETAIL_RUNS])
        detail = f"{len(contradicted)} receipts differ from the rows of their runs: {listed}"
        return Audit(Verdict.DISPUTED, drift, detail)
    rebuild(connection, ledger, tenant_id, RebuildReason.DRIFT)
    return Audit(Verdict.REPAIRED, drift)


def contradictions(connection: Connection, ledger: Ledger, tenant_id: str, now: datetime | None = None) -> list[str]:
    """The runs whose receipt names another charge than their row, of those that ended while receipts last (7 days)."""
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
