"""Run statistics for metrics and `dpp top`: cheap enough to read every second, whatever the size of the table.

Each is read from an index and counted up to a bound; a figure at its bound means that many or more.
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
RECENT_SECONDS = 300
_RUNS_OF_BUSY = 2_000


@dataclass(frozen=True, slots=True)
class Stats:
    """`parked`: waiting runs whose execution is disabled. `oldest_seconds`: how long the oldest of the other waiting
    runs has waited, 0 if there is none. `ended_recently`: within five minutes, by status. `disputed`, `stuck_claims`:
    as reconcile counts them."""

    waiting: int
    parked: int
    oldest_seconds: float
    processing: int
    ending: int
    ended_recently: Mapping[Status, int]
    disputed: int
    stuck_claims: int


@dataclass(frozen=True, slots=True)
class WatchedTenant:
    """A tenant to watch. `is_busy`: its runs are open, or ended recently; `was_credited`: it must have a balance."""

    tenant_id: str
    rate_limit_per_minute: int
    is_busy: bool
    was_credited: bool


def read_stats(connection: Connection, now: datetime | None = None) -> Stats:
    """The current statistics."""
    bound = {"at_most": COUNTED_TO, "now": now}
    (waiting,) = connection.execute(QUERIES["waiting"], bound).fetchall()
    (under_way,) = connection.execute(QUERIES["under_way"], bound).fetchall()
    recent = {"at_most": ENDS_COUNTED_TO, "seconds": RECENT_SECONDS, "now": now}
    left = store.unresolved(connection, LEFT_STUCK_AFTER_SECONDS, now)
    return Stats(
        waiting=int(waiting[0]),
        parked=int(waiting[1]),
        oldest_seconds=max(0.0, float(waiting[2])),
        processing=int(under_way[0]),
        ending=int(under_way[1]),
        ended_recently={Status(row[0]): int(row[1]) for row in connection.execute(QUERIES["ended_recently"], recent)},
        disputed=left.disputed_runs,
        stuck_claims=left.stuck_claims,
    )


def watched_tenants(connection: Connection, at_most: int, now: datetime | None = None) -> list[WatchedTenant]:
    """Up to `at_most` tenants, busy ones first."""
    params = {"at_most": at_most, "runs": _RUNS_OF_BUSY, "now": now}
    return [WatchedTenant(*row) for row in connection.execute(QUERIES["watched_tenants"], params)]


def reserved(connection: Connection, tenant_ids: Sequence[str]) -> Mapping[str, int]:
    """Micros that the open runs of these tenants have reserved; tenants without open runs are missing."""
    found = connection.execute(QUERIES["reserved"], {"tenant_ids": list(tenant_ids)})
    return {str(row[0]): int(row[1]) for row in found}
