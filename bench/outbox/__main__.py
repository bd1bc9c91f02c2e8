"""The outbox's throughput and delay, beside Procrastinate's: `python -m bench.outbox` (or `make bench-outbox`).

One Postgres server that flushes to disk, with a database for each side. A report is posted: the error and its event in
one transaction. Its first event requests an analysis, its second runs it. So an error is two events, with the same SQL
on both sides. Measured are (1) how many errors a second are processed when all are posted at once, in alternating
rounds; (2) at a steady rate, in an open loop, the delay from the time at which a post was due to the commit of its
analysis. The floor is our own statements, one after another on one connection, with nothing else around them.

Ours uses the real SQS client with a queue in memory (tests/support/sqs_server.py), which stands for SQS and for the
event source mappings. AWS's own time, 10 to 20 ms a call, is not included. Eight calls follow one another for each
error (wake, receive, send, receive, twice), so on AWS its delay is longer by some 80 to 160 ms. The peer's transport is
Postgres itself, which is measured whole.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions
from pathlib import Path

import psycopg

from bench.outbox import floor, ours, peer
from bench.support.output import print_machine, print_table, quantiles, spread
from bench.support.processes import Share, cpu_seconds, run_shares, started, wait_until
from bench.support.procrastinate import CONCURRENCY
from bench.support.servers import TENANT, Servers, peer_packages, servers
from dpp.money.credits import create_tenant
from tests.auth_errors.subprocess_workers import Servers as Endpoints
from tests.auth_errors.subprocess_workers import consumer, publisher
from tests.support.sqs_server import sqs_server

AT_ONCE, ROUNDS = 500, 3
PER_SECOND, SECONDS = 15, 20
POSTERS, WORKERS = 2, 2


@dataclass(slots=True)
class Side:
    """Ours or the peer: its processes and its measurements. `cpu_ms`: per error, by process."""

    name: str
    folder: Path
    poster: Callable[[Share], None]
    workers: Mapping[str, Sequence[Callable[[], None]]]
    rates: list[float] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """The workers write the errors and the times of their analyses here."""
        return self.folder / f"{self.name}.analysed"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.outbox", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few errors, one round: checks that the bench works")
    at_once, rounds, seconds = (40, 1, 2) if parser.parse_args().quick else (AT_ONCE, ROUNDS, SECONDS)
    packages = peer_packages()
    with servers() as its, sqs_server() as endpoint:
        urls = {name: _database(its, name) for name in ("ours", "peer", "floor")}
        peer.prepare(packages, urls["peer"])
        sides = [_our_side(urls["ours"], endpoint, its.folder), _peer_side(urls["peer"], packages, its.folder)]
        [version] = [one.version for one in distributions(path=[str(packages)]) if one.name == "procrastinate"]
        print_machine(its.postgres.url(), ("psycopg", "boto3"), {"procrastinate": version})
        print(
            f"{POSTERS} posters; ours: a publisher, {WORKERS} consumers, a queue in memory; the peer: {WORKERS} workers"
        )
        print(f"with {CONCURRENCY} tasks at a time each\n")
        floor_ms = floor.measured(urls["floor"])
        _measure(sides, its.postgres.pid, at_once, rounds, seconds)
        _print(sides, floor_ms, at_once)


def _database(its: Servers, name: str) -> str:
    url = its.database(name)
    with psycopg.connect(url, autocommit=True) as connection:
        create_tenant(connection, TENANT, "Bench", 1)
    return url


def _our_side(url: str, endpoint: str, folder: Path) -> Side:
    place = Endpoints(url, endpoint)
    consumers = [partial(consumer, place, log=folder / "ours.analysed")] * WORKERS
    workers = {"publisher": [partial(publisher, place)], "consumers": consumers}
    return Side("ours", folder, partial(ours.poster, place), workers)


def _peer_side(url: str, packages: Path, folder: Path) -> Side:
    work = partial(peer.worker, packages, url, folder / "peer.analysed")
    return Side("peer", folder, partial(peer.poster, packages, url), {"workers": [work] * WORKERS})


def _measure(sides: Sequence[Side], postgres_pid: int, at_once: int, rounds: int, seconds: int) -> None:
    """Alternate between the sides, so that changes of the machine affect both; one side's processes run at a time."""
    for number in range(rounds):
        for side in sides:
            with _working(side) as pids:
                _measure_rate(side, f"at-once-{number}", at_once, pids | {"Postgres": [postgres_pid]})
    for side in sides:
        with _working(side):
            due, analysed = _posted(side, "steady", PER_SECOND * seconds, PER_SECOND)
        side.delays_ms = [1_000 * (analysed[one] - at) for one, at in due.items()]


@contextmanager
def _working(side: Side) -> Iterator[dict[str, list[int]]]:
    """Start the workers and warm them up; their pids by name."""
    names = [name for name, targets in side.workers.items() for _ in targets]
    with started([target for targets in side.workers.values() for target in targets]) as processes:
        _posted(side, f"warm-{time.time_ns()}", 40)
        pids = [(name, process.pid or 0) for name, process in zip(names, processes, strict=True)]
        yield {name: [pid for its, pid in pids if its == name] for name in side.workers}


def _measure_rate(side: Side, prefix: str, count: int, pids: Mapping[str, Sequence[int]]) -> None:
    before = {name: cpu_seconds(its) for name, its in pids.items()}
    due, analysed = _posted(side, prefix, count)
    for name, its in pids.items():
        side.cpu_ms.setdefault(name, []).append(1_000 * (cpu_seconds(its) - before[name]) / count)
    side.rates.append(count / (max(analysed[one] for one in due) - min(due.values())))


def _posted(
    side: Side, prefix: str, count: int, per_second: float | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Post, and wait until all is analysed. Returns when each was due, and when its analysis was committed."""
    log = side.folder / f"{side.name}-{prefix}.log"
    run_shares(side.poster, prefix, count, POSTERS, log, per_second=per_second)
    due = _read(log.with_suffix(".posted"))
    wait_until(lambda: due.keys() <= _read(side.log).keys(), f"{side.name}: some errors were not analysed", every=0.1)
    return due, _read(side.log)


def _read(log: Path) -> dict[str, float]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return {words[0]: float(words[1]) for words in map(str.split, lines) if len(words) == 2}


def _print(sides: Sequence[Side], floor_ms: Mapping[str, float], at_once: int) -> None:
    total = sum(floor_ms.values())
    rows = [(f"floor: {name}", f"{value:.2f}") for name, value in (*floor_ms.items(), ("the sum", total))]
    print_table(("", "ms an error"), rows)
    print(f"floor: {1_000 / total:.0f} errors/s by one connection\n")
    head = ("", f"{at_once} at once, errors/s", f"delay at {PER_SECOND}/s, ms: p50", "p99", "max")
    our_delay, peer_delay = (quantiles(side.delays_ms)[0] for side in sides)
    print_table(head, [
        (side.name, spread(side.rates), *(f"{value:.0f}" for value in quantiles(side.delays_ms))) for side in sides
    ])  # fmt: skip
    rate, peer_rate = (statistics.median(side.rates) for side in sides)
    print(f"ours / peer: {rate / peer_rate:.2f} of its throughput, {our_delay / peer_delay:.2f} × its p50\n")
    if min(rate, peer_rate) / 2 < PER_SECOND:
        print(f"{PER_SECOND}/s is over half of the throughput here and now: the delays are those of growing queues\n")
    for side in sides:
        used = ", ".join(f"{name} {statistics.mean(values):.1f}" for name, values in side.cpu_ms.items())
        print(f"{side.name}: processor time in ms an error (without posters and queue): {used}")
    print(GUARANTEES)


GUARANTEES = """
Guarantees:
                            ours                                     the peer
  an event and its error    committed together                       the same: a job deferred on the connection
  effects                   once: DONE is in their transaction,      at least once: a job is marked after its task,
                            by the lease holder only                 which must tolerate running again
  a worker that died        its lease expires within a minute        stalled jobs are retried by a task that users
                                                                     write (get_stalled_jobs, retry_job)
  attempts that crashed     counted at their start; dead after       counted when that task retries them; the task
                            the last                                 decides when to stop
  what can't be handled     a copy in a dead-letter queue, sent      a row whose status is `failed`
                            until that is recorded
  an error's events         published in their order                 in order with a `lock`, not used here
  where consumers run       anywhere that SQS reaches                on connections to this Postgres"""

if __name__ == "__main__":
    main()
