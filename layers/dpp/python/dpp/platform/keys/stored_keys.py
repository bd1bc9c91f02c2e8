"""Keys of one scope as rows: stored by hash, verified, revoked (RUN-2, TIX-5)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.keys.tokens import KeyScope, MintedKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """The part of a key that may be shown to an operator."""

    key_id: UUID
    label: str | None
    status: Literal["ACTIVE", "REVOKED"]
    created_at: datetime
    last_used_at: datetime | None


class StoredKey(Protocol):
    """A stored key. `usable`: neither the key nor its owner is revoked; `stale_use`: its last use is over ten minutes
    old, or unknown, and worth writing."""

    @property
    def key_id(self) -> UUID:
        """The primary key."""

    @property
    def key_hash(self) -> str:
        """The SHA-256 of its secret."""

    @property
    def usable(self) -> bool:
        """False for a revoked key, and for a key whose owner is not active."""

    @property
    def stale_use(self) -> bool:
        """True if its last use should be written."""


class KeyTable[Key: StoredKey]:
    """The keys of one scope. `name` is the suffix of its queries, such as `insert_api_key`."""

    def __init__(self, scope: KeyScope, queries: Queries, name: str, model: type[Key]) -> None:
        self._scope = scope
        self._queries = queries
        self._name = name
        self._model = model

    def mint(self) -> MintedKey:
        """Create a key with its hash."""
        return self._scope.mint()

    def store(self, connection: Connection, minted: MintedKey, owner_id: str, label: str | None = None) -> None:
        """Store the key's hash for its owner: a tenant, or an operator (1 to 64 of `[A-Za-z0-9_.@-]`)."""
        fields = {"key_id": minted.key_id, "key_hash": minted.secret_sha256, "label": label}
        connection.execute(self._queries[f"insert_{self._name}"], {**fields, "owner_id": owner_id})

    def revoke(self, connection: Connection, key_id: UUID) -> str | None:
        """Refuse the key from its next request on. Returns its owner, or None for an unknown key. Repeatable."""
        row = connection.execute(self._queries[f"revoke_{self._name}"], {"key_id": key_id}).fetchone()
        return None if row is None else str(row[0])

    def find(self, connection: Connection, token: str, now: datetime | None = None) -> Key | None:
        """The key of `token`, or None if the token is malformed, unknown, wrong or revoked.

        All four cost one read and one comparison. The last use is written if it is stale.
        """
        presented = self._scope.presented(token)
        select = self._queries[f"select_{self._name}"]
        with connection.cursor(row_factory=class_row(self._model)) as cursor:
            params = {"key_id": presented.key_id, "now": now}
            stored = cursor.execute(select, params, prepare=True).fetchone()
        matches = presented.matches(stored.key_hash if stored else None)
        if stored is None or not matches or not stored.usable:
            return None
        if stored.stale_use:
            connection.execute(self._queries[f"touch_{self._name}"], {"key_id": stored.key_id, "now": now})
        return stored
