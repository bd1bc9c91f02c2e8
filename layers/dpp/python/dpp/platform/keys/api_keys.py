"""Tenants' API keys (RUN-2, RUN-29), of the scope `dpp`: see `dpp.platform.keys.tokens`."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.keys.stored_keys import KeyTable, KeyView
from dpp.platform.keys.tokens import TENANT

_QUERIES = Queries("dpp.platform.keys", "api_keys.sql")
_NO_KEY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Caller:
    """The tenant of a request."""

    tenant_id: str
    key_id: UUID
    rate_limit_per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey(KeyView):
    """A tenant's key, as shown to an operator."""

    tenant_id: str


@dataclass(frozen=True, slots=True)
class _StoredKey:
    key_id: UUID
    tenant_id: str
    key_hash: str
    usable: bool
    rate_limit_per_minute: int
    stale_use: bool


_KEYS = KeyTable(TENANT, _QUERIES, "api_key", _StoredKey)
mint, store, revoke = _KEYS.mint, _KEYS.store, _KEYS.revoke


def keys_of(connection: Connection, tenant_id: str) -> list[ApiKey]:
    """A tenant's keys, newest first; none for an unknown tenant."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(_QUERIES["select_keys_of_tenant"], {"tenant_id": tenant_id}).fetchall()


def verify(connection: Connection, token: str, now: datetime | None = None) -> Caller | None:
    """The caller of `token`, or None if the token is malformed, unknown, wrong or revoked."""
    stored = _KEYS.find(connection, token, now)
    return None if stored is None else Caller(stored.tenant_id, stored.key_id, stored.rate_limit_per_minute)


def caller_of(connection: Connection, tenant_id: str) -> Caller | None:
    """A tenant as the caller, for a function that acts for it without a key; None if it is not active."""
    row = connection.execute(_QUERIES["select_active_tenant"], {"tenant_id": tenant_id}).fetchone()
    return None if row is None else Caller(tenant_id, _NO_KEY, int(row[0]))
