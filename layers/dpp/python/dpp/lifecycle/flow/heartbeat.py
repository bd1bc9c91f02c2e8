"""Heartbeats of the roles (LIFE-11): overwritten by each firing; one that is stale is a dead role."""

from collections.abc import Mapping
from datetime import datetime

from dpp.lifecycle.flow.ports import Role
from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.observability.limits import ROLE_DEAD

QUERIES = Queries("dpp.lifecycle.flow", "heartbeat.sql")
DEAD_AFTER_SECONDS = ROLE_DEAD.at_least


def record(connection: Connection, role: Role, now: datetime | None = None) -> None:
    """Leave a heartbeat."""
    connection.execute(QUERIES["record_heartbeat"], {"role": role, "now": now})


def ages(connection: Connection, now: datetime | None = None) -> Mapping[Role, float]:
    """For how many seconds each role has been silent; a role that was never heard is not among them."""
    return {Role(row[0]): float(row[1]) for row in connection.execute(QUERIES["ages"], {"now": now})}


def dead(silent: Mapping[Role, float]) -> tuple[Role, ...]:
    """Those of whom nothing was heard for too long."""
    return tuple(sorted(role for role, seconds in silent.items() if seconds > DEAD_AFTER_SECONDS))
