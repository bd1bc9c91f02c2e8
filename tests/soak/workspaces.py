"""Archive and restore hundreds of workspaces while control and storage processes are killed: no home is lost (WS-7…12).

Uses its own servers in a temporary folder. Containers are processes of this machine, and all end with the command.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from dpp.workspaces.providers import processes
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer
from tests.soak.report import print_line, print_result
from tests.support.s3_server import s3_server
from tests.support.sqs_server import sqs_server
from tests.workspaces.round_trip import there_and_back, trip
from tests.workspaces.subprocess_workers import Place, control, storage


def main() -> int:
    """Run the command; 1 if an invariant is broken."""
    options = _parser().parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpp-soak-") as folder, sqs_server() as sqs, s3_server() as s3:
        root = Path(folder)
        with PostgresServer.start(root / "data", outlives_starter=False) as server:
            url = server.url("soak")
            with psycopg.connect(server.url(), autocommit=True) as admin:
                admin.execute("CREATE DATABASE soak")
            migrate.upgrade(url)
            broken = _soak(Place(url, sqs, s3, root), options)
    print_line(f"{time.monotonic() - began:.0f} s")
    return print_result(broken, "every home has its former content, and no process is left over")


def _soak(place: Place, options: argparse.Namespace) -> list[str]:
    began = time.monotonic()

    def progress(text: str) -> None:
        print_line(f"{time.monotonic() - began:5.0f} s: {text}")

    workers = [control, storage] * options.pairs
    with trip(place, workers, options.seed) as moving:
        broken = there_and_back(
            moving, count=options.workspaces, kills=options.kills, files=options.files, say=progress
        )
        medians = {state: round(seconds, 1) for state, seconds in moving.medians().items()}
        print_line(f"kills {dict(moving.workers.kills)}; median seconds to reach each desired state: {medians}")
        print_line(f"seconds until all had reached it: {[round(took) for took in moving.seconds.values()]}")
        ids = set(moving.ids)
    return broken + [f"a process of workspace {one} is left over" for one in ids & processes.running()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.workspaces", description=__doc__)
    parser.add_argument("--workspaces", type=int, default=200, help="number of workspaces (default 200)")
    parser.add_argument("--kills", type=int, default=60, help="number of kills (default 60)")
    parser.add_argument("--files", type=int, default=20, help="number of files in each home (default 20)")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of control and storage processes (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the kills' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
