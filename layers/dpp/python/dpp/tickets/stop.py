"""The emergency stop (TIX-6): a flag that an operator sets and clears with a reason. Every change is stored.

Every change by the ops cycle calls `require_clear` in its transaction. Setting the flag waits for such transactions,
and no new one can start after it.
"""

from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Connection
from dpp.tickets.errors import EmergencyStopSet
from dpp.tickets.store import QUERIES


@dataclass(frozen=True, slots=True)
class EmergencyStop:
    """The flag, and its last change."""

    stopped: bool
    actor: str
    reason: str
    changed_at: datetime


def read(connection: Connection) -> EmergencyStop:
    return _one(connection, "emergency_stop", {})


def require_clear(connection: Connection) -> None:
    """Check that the stop is clear, and prevent setting it until the transaction ends. Raises EmergencyStopSet."""
    found = _one(connection, "emergency_stop_held", {})
    if found.stopped:
        raise EmergencyStopSet(found.actor, found.reason)


def decide(
    connection: Connection, *, stopped: bool, actor: str, reason: str, now: datetime | None = None
) -> EmergencyStop:
    """Set or clear the stop. Each call is stored, even if it changes nothing. `reason`: 1 to 500 characters."""
    params = {"stopped": stopped, "actor": actor, "reason": reason, "now": now}
    return _one(connection, "set_emergency_stop", params)


def changes(connection: Connection, limit: int) -> list[EmergencyStop]:
    """The last `limit` changes, the newest first."""
    return [EmergencyStop(*row) for row in connection.execute(QUERIES["emergency_stop_changes"], {"limit": limit})]


def _one(connection: Connection, query: str, params: dict[str, object]) -> EmergencyStop:
    row = connection.execute(QUERIES[query], params).fetchone()
    if row is None:
        raise AssertionError("the table emergency_stop has no row; insert it as its migration does")
    return EmergencyStop(*row)
