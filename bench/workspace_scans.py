"""Cost of a tick over workspaces as their table grows: `python -m bench.workspace_scans [workspaces …]`.

At each number of workspaces the same few are due: 100 are not in their desired state, and 100 are idle beyond their
time. Measured are the queries of a tick (claiming, lowering, measuring), and their floor in the same run on the same
rows: the same rows updated by their primary key. Measured is also one page of the tick's pass over the fleet. The cost
of that pass does grow: with one page for each two hundred existing workspaces, twice a minute. Everything is rolled
back.
"""

import sys
from uuid import UUID

from bench.support.scans import Connection, compare, medians_ms
from dpp.workspaces import store
from dpp.workspaces.control.tick import LOST_AFTER_SECONDS, MAX_COUNTED, MAX_LOWERED, MAX_SEEDED, PAGE
from tests.workspaces.database.filled import fill

UNSETTLED, IDLE = 100, 100
_API, _RECONCILER = (f"SET LOCAL ROLE dpp_workspace_{role}" for role in ("api", "reconciler"))
_FLOOR_SEED = "UPDATE workspaces SET next_look_at = now() WHERE workspace_id = ANY(%s) RETURNING workspace_id"
_FLOOR_LOWER = "UPDATE workspaces SET desired_state = 'STANDBY' WHERE workspace_id = ANY(%s) RETURNING workspace_id"


def measured(connection: Connection, workspaces: int) -> dict[str, float]:
    """The number of due workspaces, and medians in ms."""
    fill(connection, workspaces=workspaces, unsettled=UNSETTLED, idle=IDLE)
    with connection.transaction(force_rollback=True):
        seeded, lowered = _tick(connection)

    def floor() -> None:
        connection.execute(_API)
        connection.execute(_FLOOR_LOWER, (lowered,)).fetchall()
        connection.execute(_RECONCILER)
        connection.execute(_FLOOR_SEED, (seeded,)).fetchall()

    calls = {
        "tick": lambda: _tick(connection),
        "floor": floor,
        "page": lambda: store.fleet_page(connection, workspaces // 2, PAGE),
    }
    found = medians_ms(connection, calls, 60, "workspaces, workspace_events")
    return {"due": len(seeded) + len(lowered), **found, "tick / floor": found["tick"] / found["floor"]}


def _tick(connection: Connection) -> tuple[list[UUID], list[UUID]]:
    connection.execute(_API)
    lowered = store.lower_idle(connection, "ttl", MAX_LOWERED)
    connection.execute(_RECONCILER)
    seeded = store.claim_unsettled(connection, LOST_AFTER_SECONDS, MAX_SEEDED)
    store.fleet_stats(connection, MAX_COUNTED)
    return seeded, lowered


if __name__ == "__main__":
    about = f"about {UNSETTLED} workspaces are not in their desired state, and {IDLE} are idle"
    sys.exit(compare(measured, about, ["tick"]))
