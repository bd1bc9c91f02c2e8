"""Tenants and their credits: first a row in Postgres, then the balance in Redis (D2)."""

import random
from collections.abc import Iterator
from uuid import UUID

from psycopg.pq import TransactionStatus

from dpp.money.books import QUERIES
from dpp.money.ledger import AmountRefused, Ledger, LedgerLost
from dpp.money.micros import MAX_AMOUNT_USD_MICROS
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.platform.db.postgres import Connection

_PAGE_SIZE = 500


class CreditConflict(Exception):
    """This credit id was used before, for another tenant or amount."""


def create_tenant(connection: Connection, tenant_id: str, display_name: str, rate_limit_per_minute: int = 60) -> None:
    """Create a tenant, or do nothing if it exists. `tenant_id`: 1–64 of `[A-Za-z0-9_-]`."""
    connection.execute(
        QUERIES["create_tenant"],
        {"tenant_id": tenant_id, "display_name": display_name, "rate_limit_per_minute": rate_limit_per_minute},
    )


def credit(
    connection: Connection, ledger: Ledger, *, credit_id: UUID, tenant_id: str, amount_usd_micros: int, reason: str
) -> int:
    """Credit a tenant with `amount_usd_micros`, once per `credit_id`, and return the new balance.

    A crash between the row and the balance leaves the balance too low by this credit; repeating the call completes
    it. Raises CreditConflict; ValueError for an amount outside 1 … 2^53 - 1; AmountRefused if the tenant's credits
    would exceed that in total (nothing is written); and RuntimeError inside an open transaction, because the row must
    be committed before the balance rises.
    """
    if not 1 <= amount_usd_micros <= MAX_AMOUNT_USD_MICROS:
        raise ValueError("a credit must be 1 to 2^53 - 1 micros")
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise RuntimeError("a credit needs its own transaction")
    with connection.transaction():
        _journal(connection, credit_id, tenant_id, amount_usd_micros, reason)
    try:
        return ledger.credit(tenant_id, str(credit_id), amount_usd_micros, opens=False)
    except LedgerLost:  # the first credit, or Redis lost the balance: Postgres knows all of it
        return rebuild(connection, ledger, tenant_id, RebuildReason.CREDIT).balance_usd_micros


def _journal(connection: Connection, credit_id: UUID, tenant_id: str, amount_usd_micros: int, reason: str) -> None:
    """Insert the credit's row, unless it exists."""
    params = {
        "credit_id": credit_id,
        "tenant_id": tenant_id,
        "amount_usd_micros": amount_usd_micros,
        "reason": reason,
        "max_usd_micros": MAX_AMOUNT_USD_MICROS,
    }
    connection.execute(QUERIES["lock_credits"], params)
    if connection.execute(QUERIES["insert_credit"], params).fetchone() is not None:
        return
    stored = connection.execute(QUERIES["select_credit"], params).fetchone()
    if stored is None:
        raise AmountRefused("the tenant's credits would exceed 2^53 - 1 micros in total")
    if stored != (tenant_id, amount_usd_micros):
        raise CreditConflict(f"credit {credit_id} exists with another tenant or amount")


def all_tenants(connection: Connection) -> Iterator[str]:
    """Every tenant's id, in order, read in pages."""
    return _tenants_after(connection, "")


def tenants_in_turn(connection: Connection) -> Iterator[str]:
    """Every tenant's id once, for a job that may run out of time.

    After the first page it continues at a random tenant and wraps around, so that each tick leaves out others.
    """
    first = _page(connection, "")
    yield from first
    if len(first) < _PAGE_SIZE:
        return
    params = {"after": first[-1], "share": random.random()}  # noqa: S311 - no secret depends on it
    row = connection.execute(QUERIES["tenant_at"], params).fetchone()
    if row is None:
        return
    yield from _tenants_after(connection, row[0])
    for tenant_id in _tenants_after(connection, first[-1]):
        yield tenant_id
        if tenant_id == row[0]:
            return


def _tenants_after(connection: Connection, after: str) -> Iterator[str]:
    while page := _page(connection, after):
        yield from page
        if len(page) < _PAGE_SIZE:
            return
        after = page[-1]


def _page(connection: Connection, after: str) -> list[str]:
    rows = connection.execute(QUERIES["tenants_after"], {"after": after, "limit": _PAGE_SIZE})
    return [str(row[0]) for row in rows]
