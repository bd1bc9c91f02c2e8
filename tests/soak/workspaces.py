"""Hundreds of workspaces archived and brought back while control and storage are killed: no home is lost.

`python -m tests.soak.workspaces --workspaces 200`, on servers of its own in a folder of its own; `make soak-workspaces`
(WS-7 … WS-12). Containers are processes of this machine, and all of them end with it.
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
from tests.support.s3_server import s3_server
from tests.support.sqs_server import sqs_server
from tests.workspaces.round_trip import there_and_back, trip
from tests.workspaces.subprocess_workers import Place, control, storage


def main() -> int:
    """Create, fill, archive, restore, kill, check; 1 where a promise is broken."""
    options = _parser().parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpp-soak-") as folder, sqs_server() as sqs, s3_server() as s3:
        root = Path(folder)
        server = PostgresServer.start(root / "data", outlives_starter=False)
        try:
            url = server.url("soak")
            with psycopg.connect(server.url(), autocommit=True) as admin:
                admin.execute("CREATE DATABASE soak")
            migrate.upgrade(url)
            faults = _soak(Place(url, sqs, s3, root), options)
        finally:
            server.stop()
    for fault in faults:
        _say(f"BROKEN: {fault}")
    told = f"{len(faults)} promises broken" if faults else "every home is as it was, and nothing is left over"
    _say(f"{told}; {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


def _soak(place: Place, options: argparse.Namespace) -> list[str]:
    began = time.monotonic()

    def say(text: str) -> None:
        _say(f"{time.monotonic() - began:5.0f} s: {text}")

    workers = [control, storage] * options.pairs
    with trip(place, workers, options.seed) as moving:
        faults = there_and_back(
            moving, count=options.workspaces, kills=options.kills, files=options.files, say=say
        )
        medians = {wanted: round(seconds, 1) for wanted, seconds in moving.medians().items()}
        _say(f"kills {dict(moving.crew.kills)}; seconds from wish to phase, medians: {medians}")
        _say(f"seconds until all were there: {[round(took) for took in moving.seconds.values()]}")
        ids = set(moving.ids)
    return faults + [f"a process of {one} is left" for one in ids & processes.running()]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.workspaces", description=__doc__)
    parser.add_argument("--workspaces", type=int, default=200)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--files", type=int, default=20, help="in each home")
    parser.add_argument("--pairs", type=int, default=2, help="of control and storage at work")
    parser.add_argument("--seed", type=int, default=0, help="of the kills' choices")
    return parser


if __name__ == "__main__":
    sys.exit(main())
