"""Writes a report to be sent to the channel (LIFE-5)."""

from datetime import datetime

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.model import MessageKind, bounded
from dpp.lifecycle.flow.store import NewMessage
from dpp.platform.db.postgres import Connection

MAX_BODY = 4_000


def announce(connection: Connection, key: str, body: str, now: datetime | None = None) -> None:
    """Write the report in the caller's transaction; a repeated call with the same key writes nothing."""
    store.add_message(connection, NewMessage(MessageKind.REPORT, None, key, bounded(body, MAX_BODY)), now)
