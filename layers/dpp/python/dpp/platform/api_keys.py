"""API keys (RUN-2, RUN-29): `dpp_<key id>_<secret>`; only the secret's SHA-256 is stored.

The id finds the row by its primary key; the secret, 256 random bits, is then compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID, uuid4

from psycopg.rows import class_row

from dpp.platform.postgres import Connection
from dpp.platform.sql import Queries

_QUERIES = Queries("dpp.platform", "queries.sql")
_TOKEN = re.compile(r"dpp_([0-9a-f]{32})_([0-9a-f]{64})", re.ASCII)
_NO_KEY = UUID(int=0)
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class MintedApiKey:
    """A new key; `token` is shown to its owner once and stored nowhere."""

    key_id: UUID
    secret_sha256: str
    token: str = field(repr=False)


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


def mint() -> MintedApiKey:
    """A fresh key with its hash."""
    key_id, secret = uuid4(), secrets.token_hex(32)
    return MintedApiKey(key_id, _hash(secret), f"dpp_{key_id.hex}_{secret}")


def store(connection: Connection, minted: MintedApiKey, tenant_id: str, label: str | None = None) -> None:
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


def without_secret(text: str) -> str:
    """`text` with the secret of every key in it masked: an operator may paste a key where its id is asked for."""
    return _TOKEN.sub(r"dpp_\1_***", text)


def verify(connection: Connection, token: str, now: datetime | None = None) -> Caller | None:
    """The caller that `token` belongs to, or None for a token that is malformed, unknown, wrong or revoked.

    All four cost one read and one comparison. `last_used_at` is written when it is over ten minutes old.
    """
    match = _TOKEN.fullmatch(token)
    key_id, secret = (UUID(match.group(1)), match.group(2)) if match else (_NO_KEY, "")
    with connection.cursor(row_factory=class_row(_StoredKey)) as cursor:
        stored = cursor.execute(_QUERIES["select_api_key"], {"key_id": key_id, "now": now}).fetchone()
    matches = hmac.compare_digest(stored.key_hash if stored else _NO_HASH, _hash(secret))
    if stored is None or not matches or not stored.usable:
        return None
    if stored.stale_use:
        connection.execute(_QUERIES["touch_api_key"], {"key_id": key_id, "now": now})
    return Caller(stored.tenant_id, stored.key_id, stored.rate_limit_per_minute)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
