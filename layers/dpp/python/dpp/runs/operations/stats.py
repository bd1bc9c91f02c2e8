"""How runs stand, for who watches: figures that are cheap to ask for every second, whatever there is.

Each is read from an index and counted no further than a bound; a figure at its bound means so many or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries
from dpp.runs import store
from dpp.runs.jobs.reconcile import LEFT_STUCK_AFTER_SECONDS
from dpp.runs.machine import Status

QUERIES = Queries("dpp.runs.operations", "stats.sql")
COUNTED_TO = 10_000
ENDS_COUNTED_TO = 5_000
LATELY_SECONDS = 300
_RUNS_OF_BUSY = 2_000


@dataclass(frozen=True, slots=True)
class Standing:
    """`parked`: of those that wait, runs whose execution is disabled. `oldest_seconds`: how long the oldest of the
    others has waited, 0 where none does. `ended_lately`: within five minutes, by how. `disputed`, `stuck_claims`: as
    reconcile counts them."""

    waiting: int
    parked: int
    oldest_seconds: float
    processing: int
    ending: int
    ended_lately: Mapping[Status, int]
    disputed: int
    stuck_claims: int


@dataclass(frozen=True, slots=True)
class WatchedTenant:
    """A tenant to look at. `is_busy`: its runs are open, or ended lately; `was_credited`: it must have a balance."""

    tenant_id: str
    rate_limit_per_minute: int
    is_busy: bool
    was_credited: bool


def standing(connection: Connection, now: datetime | None = None) -> Standing:
    """As it stands."""
    bound = {"at_most": COUNTED_TO, "now": now}
    (waiting,) = connection.execute(QUERIES["waiting"], bound).fetchall()
    (under_way,) = connection.execute(QUERIES["under_way"], bound).fetchall()
    lately = {"at_most": ENDS_COUNTED_TO, "seconds": LATELY_SECONDS, "now": now}
    left = store.unresolved(connection, LEFT_STUCK_AFTER_SECONDS, now)
    return Standing(
        waiting=int(waiting[0]),
        parked=int(waiting[1]),
        oldest_seconds=max(0.0, float(waiting[2])),
        processing=int(under_way[0]),
        ending=int(under_way[1]),
        ended_lately={
            Status(row[0]): int(row[1]) for row in connection.execute(QUERIES["ended_lately"], lately)
        },
        disputed=left.disputed_runs,
        stuck_claims=left.stuck_claims,
    )


def tenants_to_look_at(
    connection: Connection, at_most: int, now: datetime | None = None
) -> list[WatchedTenant]:
    """So many tenants, those whose runs are open or ended lately before all others."""
    params = {"at_most": at_most, "runs": _RUNS_OF_BUSY, "now": now}
    return [WatchedTenant(*row) for row in connection.execute(QUERIES["tenants_to_look_at"], params)]


def reserved(connection: Connection, tenant_ids: Sequence[str]) -> Mapping[str, int]:
    """What open runs of these tenants have reserved, in micros; a tenant without any is not among them."""
    found = connection.execute(QUERIES["reserved"], {"tenant_ids": list(tenant_ids)})
    return {str(row[0]): int(row[1]) for row in found}
