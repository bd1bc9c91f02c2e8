"""Tenants with a key and money, for clients of a soak or a load."""

from typing import Any
from uuid import uuid4

import psycopg

from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.platform.keys import api_keys
from tests.soak.clients import Account

_CREDIT_USD_MICROS = 1_000_000_000
_REQUESTS_PER_MINUTE = 1_000_000


def funded(
    connection: psycopg.Connection[Any],
    ledger: Ledger,
    why: str,
    amount_usd_micros: int = _CREDIT_USD_MICROS,
) -> Account:
    """A new tenant `<why>_<random>` that no rate limit will stop."""
    tenant_id, minted = f"{why}_{uuid4().hex[:12]}", api_keys.mint()
    create_tenant(connection, tenant_id, f"A {why}", _REQUESTS_PER_MINUTE)
    api_keys.store(connection, minted, tenant_id)
    credit(
        connection,
        ledger,
        credit_id=uuid4(),
        tenant_id=tenant_id,
        amount_usd_micros=amount_usd_micros,
        reason=why,
    )
    return Account(tenant_id, minted.token)
