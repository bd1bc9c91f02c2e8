"""Runs a second from submit to COMMITTED, beside task queues and a workflow engine: `python -m bench.runs [--quick]`
(or `make bench-runs`).

One Postgres server that flushes to disk, a database each; a Valkey each. As many processes submit as there are cores,
as many work, and both at once; only one side's processes run at a time, in rounds that take turns. Measured is from the
first submit until the last run is done for good, each side as it says in its own module (bench/runs_*.py): the same
question, the same answer, a no-op between them, the result stored. Ours reserves and charges as well, exactly once.

A worker of ours is a container, which has one run at a time, where a worker of Procrastinate's or DBOS's has ten. So
ours works a second time with four workers a core, which wait for the disk together.

The floor is a side like the others: the bare round trips of a run, so many processes at once as there are cores.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import psycopg
import redis

from bench import runs_celery, runs_dbos, runs_floor, runs_ours, runs_procrastinate
from bench.crew import Share, Spent, cpu_seconds, ends_tidily, machine, shared_out, spread, started
from bench.runs_aws import EventSource, stand_in
from bench.runs_work import Place
from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.local.servers import PostgresServer, ValkeyServer
from dpp_cli.paths import BUILD

RUNS, ROUNDS = 600, 5
QUICK_RUNS, QUICK_ROUNDS = 100, 1
ROUNDS_SECONDS = 225
"""No round is begun that would end later."""
CROWD = 4
WARM_RUNS = 40
_PATIENCE_SECONDS = 120
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Side:
    """Who does the work, and what was measured. `cpu_ms`: a run, by who used it."""

    name: str
    durable: bool
    place: Place
    submit: Callable[[Share], None]
    work: Callable[[], None] | None
    module: Any
    """Has `done` and `proved`."""
    servers: Mapping[str, int]
    crowd: int = 1
    """Workers a core."""
    count: int = 0
    rates: list[float] = field(default_factory=list)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)


def main() -> None:
    """Measure and print."""
    options = _parser().parse_args()
    ends_tidily()
    runs, rounds = (QUICK_RUNS, QUICK_ROUNDS) if options.quick else (options.runs, options.rounds)
    packages = build_packages_layer(BUILD / "layers" / "bench", ["--only-group", "bench"]) / "python"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dpp-bench-")))
        # Postgres may run as another user and must reach its folder.
        folder.chmod(0o755)
        house = _House(folder, stack, packages)
        print(machine(house.postgres.url(), _versions(packages)))
        print(
            f"{options.processes} processes submit, as many work; {rounds} rounds of {runs} runs, in turn\n"
        )
        only = {"ours", "ours, 4 a core", "floor", *(options.only or ())}
        sides = [side for side in house.sides() if options.only is None or side.name in only]
        _rounds(sides, folder, runs, rounds, options.processes)
        _print_rates(sides)
        _print_proofs(sides)
        _print_goal(sides)


class _House:
    """The servers, and who works on them."""

    def __init__(self, folder: Path, stack: ExitStack, packages: Path) -> None:
        self._folder = folder
        self._stack = stack
        self._packages = packages
        self.postgres = PostgresServer.start(folder / "postgres", durable=True, outlives_starter=False)
        stack.callback(self.postgres.stop)

    def sides(self) -> list[Side]:
        """Everyone, in the order in which they take turns."""
        return [
            self._with_aws("ours", runs_ours, runs_ours.worker),
            self._with_aws("ours, 4 a core", runs_ours, runs_ours.worker, CROWD),
            self._with_aws("floor", runs_floor, None),
            self._procrastinate(),
            self._dbos("dbos, queued", runs_dbos.submitter, runs_dbos.worker),
            self._dbos("dbos, direct", runs_dbos.runner, None),
            self._celery("celery", None),
            self._celery("celery, everysec", "everysec"),
            self._celery("celery, always", "always"),
        ]

    def _with_aws(
        self, name: str, module: Any, worker: Callable[[Place], None] | None, crowd: int = 1
    ) -> Side:
        cache = self._valkey(name, None)
        place = Place(self._database(name), cache.url, self._stack.enter_context(stand_in()))
        module.prepare(place)
        aws = EventSource(place.endpoint).stats()["pid"]
        servers = {"Postgres": self.postgres.pid, "Valkey": cache.pid, "stand-in of AWS": aws}
        work = worker and partial(worker, place)
        return Side(name, True, place, partial(module.submitter, place), work, module, servers, crowd)

    def _procrastinate(self) -> Side:
        module, place = runs_procrastinate, Place(self._database("procrastinate"), "", "")
        module.prepare(self._packages, place)
        submit = partial(module.submitter, self._packages, place)
        work = partial(module.worker, self._packages, place)
        return Side("procrastinate", True, place, submit, work, module, {"Postgres": self.postgres.pid})

    def _dbos(self, name: str, submit: Any, work: Any) -> Side:
        place = Place(self._database(name), "", "")
        with started([partial(runs_dbos.prepare, self._packages, place)]) as made:
            made[0].join()
        submit = partial(submit, self._packages, place)
        work = work and partial(work, self._packages, place)
        return Side(name, True, place, submit, work, runs_dbos, {"Postgres": self.postgres.pid})

    def _celery(self, name: str, appendfsync: str | None) -> Side:
        cache, late = self._valkey(name, appendfsync), appendfsync is not None
        place = Place("", cache.url, "")
        submit = partial(runs_celery.submitter, self._packages, place, late)
        work = partial(runs_celery.worker, self._packages, place, late)
        return Side(name, False, place, submit, work, runs_celery, {"Valkey": cache.pid})

    def _database(self, name: str) -> str:
        with psycopg.connect(self.postgres.url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {_word(name)}".encode())
        return self.postgres.url(_word(name))

    def _valkey(self, name: str, appendfsync: str | None) -> ValkeyServer:
        """A server of its own, which keeps what `appendfsync` says, or nothing."""
        durable = appendfsync is not None
        folder = self._folder / f"valkey-{_word(name)}"
        server = ValkeyServer.start(folder, durable=durable, outlives_starter=False)
        self._stack.callback(server.stop)
        if appendfsync is not None:
            with redis.Redis.from_url(server.url) as client:
                client.config_set("appendfsync", appendfsync)
        return server


def _word(name: str) -> str:
    return name.replace(", ", "_").replace(" ", "_")


def _rounds(sides: Sequence[Side], folder: Path, runs: int, rounds: int, processes: int) -> None:
    """In turn, so that what changes on the machine meets all; as many as there is time for."""
    began = time.monotonic()
    for turn in range(rounds):
        if turn and (time.monotonic() - began) * (turn + 1) / turn > ROUNDS_SECONDS:
            print(f"{turn} rounds of {rounds}: there was no time for more\n")
            return
        for side in sides:
            _round(side, folder, f"r{turn}", runs, processes)


def _round(side: Side, folder: Path, name: str, runs: int, processes: int) -> None:
    """Start the workers, let them warm up, and measure."""
    with started([side.work] * processes * side.crowd if side.work else []) as workers:
        _done(side, folder, f"{name}-warm", WARM_RUNS, processes)
        pids = {name: [pid] for name, pid in side.servers.items()}
        pids["workers"] = [worker.pid or 0 for worker in workers]
        before = {name: cpu_seconds(its) for name, its in pids.items()}
        spent, ended = _done(side, folder, name, runs, processes)
        side.rates.append(runs / (ended - spent.began))
        used = {name: cpu_seconds(its) - before[name] for name, its in pids.items()}
        for who, seconds in {"submitters": spent.cpu_seconds, **used}.items():
            side.cpu_ms.setdefault(who, []).append(1_000 * seconds / runs)


def _done(side: Side, folder: Path, name: str, runs: int, processes: int) -> tuple[Spent, float]:
    """Have so many more runs done; what submitting them took, and when all were done for good."""
    log = folder / f"{side.name}.{name}"
    shares = shared_out(f"order-{name}", runs, processes, log)
    side.count += runs
    with started([partial(side.submit, share) for share in shares]) as submitters:
        for submitter in submitters:
            submitter.join()
        spent, until = Spent.read(log, processes), time.monotonic() + _PATIENCE_SECONDS
        while side.module.done(side.place) < side.count:
            assert time.monotonic() < until, f"{side.name}: some runs are not done"
            time.sleep(_LOOK_SECONDS)
        return spent, time.time()


def _versions(packages: Path) -> dict[str, str]:
    wanted = {"procrastinate", "dbos", "celery", "kombu", "sqlalchemy"}
    found = {one.name.lower(): one.version for one in distributions(path=[str(packages)])}
    return {name: found[name] for name in sorted(wanted)}


def _print_rates(sides: Sequence[Side]) -> None:
    ours, floor = _ours(sides)[1], statistics.median(_named(sides, "floor").rates)
    print(
        f"{'':<18}{'runs/s, median (rounds)':>44}{'our best /':>11}{'/ floor':>9}  processor time, ms a run"
    )
    for side in sides:
        rate = statistics.median(side.rates)
        used = {who: statistics.median(values) for who, values in side.cpu_ms.items()}
        said = ", ".join(f"{who} {value:.1f}" for who, value in used.items() if value)
        print(f"{side.name:<18}{spread(side.rates):>44}{ours / rate:>10.2f}×{rate / floor:>8.2f}×  {said}")
    print()


def _print_proofs(sides: Sequence[Side]) -> None:
    for side in sides:
        print(f"{side.name}: {side.module.proved(side.place, side.count)}")
    print(LEFT_OUT)


def _print_goal(sides: Sequence[Side]) -> None:
    """Ahead of every one that is durable, by medians."""
    name, ours = _ours(sides)
    peers = [side for side in sides if side.durable and side.module not in (runs_ours, runs_floor)]
    durable = {side.name: statistics.median(side.rates) for side in peers}
    best = max(durable, key=lambda peer: durable[peer])
    told = ", ".join(f"{peer} by {1 - ours / rate:.0%}" for peer, rate in durable.items() if rate >= ours)
    said = f"missed: behind {told}" if told else f"met: {ours / durable[best]:.2f} × the best, {best}"
    print(f"aim, {name} ahead of every one that is durable: {said}")


def _ours(sides: Sequence[Side]) -> tuple[str, float]:
    """Our better setting, and its rate."""
    rates = {side.name: statistics.median(side.rates) for side in sides if side.module is runs_ours}
    best = max(rates, key=lambda name: rates[name])
    return best, rates[best]


def _named(sides: Sequence[Side], name: str) -> Side:
    return next(side for side in sides if side.name == name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one round of a few runs: does it work, in a minute"
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="a round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--processes", type=int, default=os.process_cpu_count() or 1)
    parser.add_argument("--only", nargs="*", help="these sides; ours and the floor always")
    return parser


LEFT_OUT = """
ours, left out: API Gateway, the caller's key, the pack's process, Lambda's runtime, AWS's own 10 to 20 ms a call
ours beyond the others: each reserved and charged, exactly once; a lease and a heartbeat; a claim before the result
celery: not durable. By default Redis keeps nothing on disk and a task is acknowledged before it is done; `everysec`
and `always` are an append-only file and late acknowledgement, and a worker that dies right behind its BRPOP still loses
a task
"""

if __name__ == "__main__":
    main()
