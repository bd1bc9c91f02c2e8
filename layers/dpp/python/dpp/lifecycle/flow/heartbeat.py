"""Heartbeats of the roles (LIFE-11): each tick overwrites its role's heartbeat; a role with a stale one is dead."""

from collections.abc import Mapping
from datetime import datetime

from dpp.lifecycle.flow.ports import Role
from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.platform.observability.limits import ROLE_DEAD

QUERIES = Queries("dpp.lifecycle.flow", "heartbeat.sql")
DEAD_AFTER_SECONDS = ROLE_DEAD.at_least


def record(connection: Connection, role: Role, now: datetime | None = None) -> None:
    """Record a heartbeat."""
    connection.execute(QUERIES["record_heartbeat"], {"role": role, "now": now})


def ages(connection: Connection, now: datetime | None = None) -> Mapping[Role, float]:
    """Seconds since the last heartbeat of each role that has sent one."""
    return {Role(row[0]): float(row[1]) for row in connection.execute(QUERIES["ages"], {"now": now})}


def dead(silent: Mapping[Role, float]) -> tuple[Role, ...]:
    """The roles whose last heartbeat is too old."""
    return tuple(sorted(role for role, seconds in silent.items() if seconds > DEAD_AFTER_SECONDS))
