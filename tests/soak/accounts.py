"""Tenants with an API key and a balance, for the clients of a soak or load test."""

from typing import Any
from uuid import uuid4

import psycopg

from dpp.money.credits import create_tenant
from dpp.money.ledger import Ledger
from dpp.platform.keys import api_keys
from tests.soak.clients import Account
from tests.support.world import give_credit

_CREDIT_USD_MICROS = 1_000_000_000
_REQUESTS_PER_MINUTE = 1_000_000


def create_account(
    connection: psycopg.Connection[Any], ledger: Ledger, purpose: str, amount_usd_micros: int = _CREDIT_USD_MICROS
) -> Account:
    """A new tenant `<purpose>_<random>`; its rate limit is out of reach."""
    tenant_id, minted = f"{purpose}_{uuid4().hex[:12]}", api_keys.mint()
    create_tenant(connection, tenant_id, f"A {purpose}", _REQUESTS_PER_MINUTE)
    api_keys.store(connection, minted, tenant_id)
    give_credit(connection, ledger, tenant_id, amount_usd_micros)
    return Account(tenant_id, minted.token)
