"""The emergency stop (TIX-6): a flag that an operator sets and clears with a reason, kept with every change.

Whoever is about to change something because of the ops cycle calls `require_clear` in the transaction of the change:
setting the flag waits for such transactions, and after it none begins.
"""

from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Connection
from dpp.tickets.errors import EmergencyStopSet
from dpp.tickets.store import QUERIES


@dataclass(frozen=True, slots=True)
class EmergencyStop:
    """Whether it is set, who said so last, why and when."""

    stopped: bool
    actor: str
    reason: str
    changed_at: datetime


def read(connection: Connection) -> EmergencyStop:
    """As it stands."""
    return _one(connection, "emergency_stop", {})


def require_clear(connection: Connection) -> None:
    """Go on, and let nobody set it before this transaction ends. Raises EmergencyStopSet."""
    found = _one(connection, "emergency_stop_held", {})
    if found.stopped:
        raise EmergencyStopSet(found.actor, found.reason)


def decide(
    connection: Connection, *, stopped: bool, actor: str, reason: str, now: datetime | None = None
) -> EmergencyStop:
    """Set or clear it; each call is kept, one that changes nothing too. `reason`: 1 to 500 characters."""
    params = {"stopped": stopped, "actor": actor, "reason": reason, "now": now}
    return _one(connection, "set_emergency_stop", params)


def changes(connection: Connection, limit: int) -> list[EmergencyStop]:
    """The last so many changes, the newest first."""
    return [
        EmergencyStop(*row) for row in connection.execute(QUERIES["emergency_stop_changes"], {"limit": limit})
    ]


def _one(connection: Connection, query: str, params: dict[str, object]) -> EmergencyStop:
    row = connection.execute(QUERIES[query], params).fetchone()
    if row is None:
        raise AssertionError("the emergency stop has no row: was it deleted by hand?")
    return EmergencyStop(*row)
