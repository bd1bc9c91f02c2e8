"""Tenants and what they are given to spend: a row in Postgres first, then the balance in Redis (D2)."""

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


def create_tenant(
    connection: Connection, tenant_id: str, display_name: str, rate_limit_per_minute: int = 60
) -> None:
    """Create a tenant, or do nothing if it exists. `tenant_id`: 1–64 of `[A-Za-z0-9_-]`."""
    connection.execute(
        QUERIES["create_tenant"],
        {
            "tenant_id": tenant_id,
            "display_name": display_name,
            "rate_limit_per_minute": rate_limit_per_minute,
        },
    )


def credit(
    connection: Connection,
    ledger: Ledger,
    *,
    credit_id: UUID,
    tenant_id: str,
    amount_usd_micros: int,
    reason: str,
) -> int:
    """Give a tenant `amount_usd_micros`, once for a `credit_id`; the new balance.

    A crash between the row and the balance leaves the balance too low by this credit; the same call again
    completes it. Raises CreditConflict, ValueError (amount out of 1 … 2^53 - 1), AmountRefused (a tenant's credits
    would sum up beyond that; nothing is written), and RuntimeError inside an open transaction: the row must stand
    before the balance rises.
    """
    if not 1 <= amount_usd_micros <= MAX_AMOUNT_USD_MICROS:
        raise ValueError("a credit is from 1 to 2^53 - 1 micros")
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise RuntimeError("a credit is a transaction of its own")
    with connection.transaction():
        _journal(connection, credit_id, tenant_id, amount_usd_micros, reason)
    try:
        return ledger.credit(tenant_id, str(credit_id), amount_usd_micros, opens=False)
    except LedgerLost:  # the first credit, or all there was is gone: Postgres knows the whole balance
        return rebuild(connection, ledger, tenant_id, RebuildReason.CREDIT).balance_usd_micros


def _journal(
    connection: Connection, credit_id: UUID, tenant_id: str, amount_usd_micros: int, reason: str
) -> None:
    """Make sure that the credit's row stands."""
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
        raise AmountRefused("the tenant's credits would sum up beyond 2^53 - 1 micros")
    if stored != (tenant_id, amount_usd_micros):
        raise CreditConflict(f"credit {credit_id} exists with another tenant or amount")


def all_tenants(connection: Connection) -> Iterator[str]:
    """Every tenant's id, in order, read page by page."""
    return _tenants_after(connection, "")


def tenants_in_turn(connection: Connection) -> Iterator[str]:
    """Every tenant's id once, for a job that may not come to the end of them.

    Beyond a page of them it goes on from anywhere and round, so that each firing leaves out others.
    """
    first = _page(connection, "")
    yield from first
    if len(first) < _PAGE_SIZE:
        return
    params = {"after": first[-1], "share": random.random()}  # noqa: S311 - whose turn it is guards nothing
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
