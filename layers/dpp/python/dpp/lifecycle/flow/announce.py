"""The message that tells of a day's cleanup (LIFE-5, LIFE-8): figures, classes and ids, no word of anybody's."""

from datetime import datetime

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.model import MessageKind, bounded
from dpp.lifecycle.flow.store import NewMessage
from dpp.lifecycle.retention.cleanup import Cleanup
from dpp.platform.db.postgres import Connection

_MAX_BODY = 4_000


def announce(connection: Connection, cleanup: Cleanup, now: datetime | None = None) -> None:
    """Have the envoy tell of a cleanup that ended, once for its day; written in the transaction that ends it."""
    key = f"cleanup/{cleanup.day.isoformat()}"
    store.say(connection, NewMessage(MessageKind.REPORT, None, key, report_of(cleanup)), now)


def report_of(cleanup: Cleanup) -> str:
    """A line of the sum, one for each class of which something went, and the warnings."""
    went = sorted(((one.deleted, one.name) for one in cleanup.classes if one.deleted), reverse=True)
    lines = [
        f"Cleanup of {cleanup.day.isoformat()}: {_rows(cleanup.deleted)} deleted, {cleanup.bytes:,} bytes."
    ]
    lines += [f"• {name}: {deleted:,}" for deleted, name in went]
    lines += [f"! {warning}" for warning in cleanup.warnings]
    return bounded("\n".join(lines), _MAX_BODY)


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
