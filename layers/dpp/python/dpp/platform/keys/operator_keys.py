"""Operators' API keys (TIX-5), of the scope `dppop`: whoever has one may file tickets and run the reaper.

A key names its operator, who stands as the actor in every record of what was done with it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.keys.stored_keys import verified
from dpp.platform.keys.tokens import OPERATOR, MintedKey

_QUERIES = Queries("dpp.platform.keys", "operator_keys.sql")


@dataclass(frozen=True, slots=True)
class Operator:
    """Who is asking."""

    operator_id: str
    key_id: UUID


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """What may be seen of a key."""

    key_id: UUID
    operator_id: str
    label: str | None
    status: Literal["ACTIVE", "REVOKED"]
    created_at: datetime
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class _StoredKey:
    key_id: UUID
    operator_id: str
    key_hash: str
    usable: bool
    stale_use: bool


def mint() -> MintedKey:
    """A fresh key with its hash."""
    return OPERATOR.mint()


def store(connection: Connection, minted: MintedKey, operator_id: str, label: str | None = None) -> None:
    """Give an operator the key; only its hash is written. `operator_id`: 1 to 64 of `[A-Za-z0-9_.@-]`."""
    connection.execute(
        _QUERIES["insert_operator_key"],
        {
            "key_id": minted.key_id,
            "operator_id": operator_id,
            "key_hash": minted.secret_sha256,
            "label": label,
        },
    )


def all_keys(connection: Connection) -> list[OperatorKey]:
    """Every operator's keys, the newest first of each."""
    with connection.cursor(row_factory=class_row(OperatorKey)) as cursor:
        return cursor.execute(_QUERIES["select_operator_keys"]).fetchall()


def revoke(connection: Connection, key_id: UUID) -> str | None:
    """Refuse a key from its next request on; whose it was, or None for an unknown key. Repeatable."""
    row = connection.execute(_QUERIES["revoke_operator_key"], {"key_id": key_id}).fetchone()
    return None if row is None else str(row[0])


def verify(connection: Connection, token: str, now: datetime | None = None) -> Operator | None:
    """The operator that `token` belongs to, or None for a token that is malformed, unknown, wrong or revoked."""
    stored = verified(
        connection,
        OPERATOR,
        token,
        _StoredKey,
        select=_QUERIES["select_operator_key"],
        touch=_QUERIES["touch_operator_key"],
        now=now,
    )
    return None if stored is None else Operator(stored.operator_id, stored.key_id)
