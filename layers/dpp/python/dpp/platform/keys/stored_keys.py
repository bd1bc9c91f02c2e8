"""Who shows a stored key: the one way in which a key of any scope is looked up, compared and noted (RUN-2, TIX-5)."""

from datetime import datetime
from typing import LiteralString, Protocol
from uuid import UUID

from psycopg.rows import class_row

from dpp.platform.db.postgres import Connection
from dpp.platform.keys.tokens import KeyScope


class StoredKey(Protocol):
    """What is read of a key. `usable`: not revoked, nor its owner; `stale_use`: its last use is worth writing."""

    @property
    def key_id(self) -> UUID:
        """By which it was found."""

    @property
    def key_hash(self) -> str:
        """The SHA-256 of its secret."""

    @property
    def usable(self) -> bool:
        """Whether it lets anybody in."""

    @property
    def stale_use(self) -> bool:
        """Whether its last use is over ten minutes old."""


def verified[Key: StoredKey](
    connection: Connection,
    scope: KeyScope,
    token: str,
    key: type[Key],
    *,
    select: LiteralString,
    touch: LiteralString,
    now: datetime | None = None,
) -> Key | None:
    """The key that `token` is, or None for one that is malformed, unknown, wrong or revoked.

    All four cost one read (`select`) and one comparison. `touch` writes the last use where it is worth it.
    """
    shown = scope.presented(token)
    with connection.cursor(row_factory=class_row(key)) as cursor:
        stored = cursor.execute(select, {"key_id": shown.key_id, "now": now}, prepare=True).fetchone()
    matches = shown.matches(stored.key_hash if stored else None)
    if stored is None or not matches or not stored.usable:
        return None
    if stored.stale_use:
        connection.execute(touch, {"key_id": stored.key_id, "now": now})
    return stored
