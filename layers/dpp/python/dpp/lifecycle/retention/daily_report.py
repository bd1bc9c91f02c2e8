"""The report of a daily cleanup for the channel (LIFE-5, LIFE-8): figures, class names and ids, no user content."""

from datetime import datetime

from dpp.lifecycle.flow import announce as flow
from dpp.lifecycle.retention.model import Cleanup
from dpp.platform.db.postgres import Connection


def announce(connection: Connection, cleanup: Cleanup, now: datetime | None = None) -> None:
    """Write the report once per day, in the transaction that ends the cleanup."""
    flow.announce(connection, f"cleanup/{cleanup.day.isoformat()}", report_of(cleanup), now)


def report_of(cleanup: Cleanup) -> str:
    """The total, a line for each class with deleted rows, and the warnings."""
    by_class = sorted(((one.deleted, one.name) for one in cleanup.classes if one.deleted), reverse=True)
    rows = "1 row" if cleanup.deleted == 1 else f"{cleanup.deleted:,} rows"
    lines = [f"Cleanup of {cleanup.day.isoformat()}: {rows} deleted, {cleanup.bytes:,} bytes."]
    lines += [f"• {name}: {deleted:,}" for deleted, name in by_class]
    lines += [f"! {warning}" for warning in cleanup.warnings]
    return "\n".join(lines)
