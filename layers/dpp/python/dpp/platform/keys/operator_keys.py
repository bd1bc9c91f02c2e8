"""Operators' API keys (TIX-5), of the scope `dppop`: they permit filing tickets and running the reaper.

A key names its operator, who is recorded as the actor of everything done with it.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.keys.stored_keys import KeyTable, KeyView
from dpp.platform.keys.tokens import OPERATOR

_QUERIES = Queries("dpp.platform.keys", "operator_keys.sql")


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of a request."""

    operator_id: str
    key_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorKey(KeyView):
    """An operator's key, as shown to an operator."""

    operator_id: str


@dataclass(frozen=True, slots=True)
class _StoredKey:
    key_id: UUID
    operator_id: str
    key_hash: str
    usable: bool
    stale_use: bool


_KEYS = KeyTable(OPERATOR, _QUERIES, "operator_key", _StoredKey)
mint, store, revoke = _KEYS.mint, _KEYS.store, _KEYS.revoke


def all_keys(connection: Connection) -> list[OperatorKey]:
    """The keys of every operator, newest first of each."""
    with connection.cursor(row_factory=class_row(OperatorKey)) as cursor:
        return cursor.execute(_QUERIES["select_operator_keys"]).fetchall()


def verify(connection: Connection, token: str, now: datetime | None = None) -> Operator | None:
    """The operator of `token`, or None if the token is malformed, unknown, wrong or revoked."""
    stored = _KEYS.find(connection, token, now)
    return None if stored is None else Operator(stored.operator_id, stored.key_id)
