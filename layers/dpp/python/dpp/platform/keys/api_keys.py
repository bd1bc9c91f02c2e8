"""Tenants' API keys (RUN-2, RUN-29), of the scope `dpp`: see `dpp.platform.keys.tokens`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.keys.stored_keys import verified
from dpp.platform.keys.tokens import TENANT, MintedKey

_QUERIES = Queries("dpp.platform.keys", "api_keys.sql")
_NO_KEY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking."""

    tenant_id: str
    key_id: UUID
    rate_limit_per_minute: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What may be seen of a key."""

    key_id: UUID
    tenant_id: str
    label: str | None
    status: Literal["ACTIVE", "REVOKED"]
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class _StoredKey:
    key_id: UUID
    tenant_id: str
    key_hash: str
    usable: bool
    rate_limit_per_minute: int
    stale_use: bool


def mint() -> MintedKey:
    """A fresh key with its hash."""
    return TENANT.mint()


def store(connection: Connection, minted: MintedKey, tenant_id: str, label: str | None = None) -> None:
    """Give a tenant the key; only its hash is written."""
    connection.execute(
        _QUERIES["insert_api_key"],
        {"key_id": minted.key_id, "tenant_id": tenant_id, "key_hash": minted.secret_sha256, "label": label},
    )


def keys_of(connection: Connection, tenant_id: str) -> list[ApiKey]:
    """A tenant's keys, the newest first; none for an unknown tenant."""
    with connection.cursor(row_factory=class_row(ApiKey)) as cursor:
        return cursor.execute(_QUERIES["select_keys_of_tenant"], {"tenant_id": tenant_id}).fetchall()


def revoke(connection: Connection, key_id: UUID) -> str | None:
    """Refuse a key from its next request on; the tenant it was given to, or None for an unknown key. Repeatable."""
    row = connection.execute(_QUERIES["revoke_api_key"], {"key_id": key_id}).fetchone()
    return None if row is None else str(row[0])


def verify(connection: Connection, token: str, now: datetime | None = None) -> Caller | None:
    """The caller that `token` belongs to, or None for a token that is malformed, unknown, wrong or revoked."""
    stored = verified(
        connection,
        TENANT,
        token,
        _StoredKey,
        select=_QUERIES["select_api_key"],
        touch=_QUERIES["touch_api_key"],
        now=now,
    )
    return None if stored is None else Caller(stored.tenant_id, stored.key_id, stored.rate_limit_per_minute)


def caller_of(connection: Connection, tenant_id: str) -> Caller | None:
    """A tenant as a function of the deployment's own calls for it, without a key; None where it is not active."""
    row = connection.execute(_QUERIES["select_active_tenant"], {"tenant_id": tenant_id}).fetchone()
    return None if row is None else Caller(tenant_id, _NO_KEY, int(row[0]))
