"""Runs a second from submit to COMMITTED, beside task queues and a workflow engine: `python -m bench.runs [--quick]`
(or `make bench-runs`).

One Postgres server that flushes to disk, with a database for each side; a Valkey server for each side. As many
processes submit as there are cores, as many work, both at the same time. Only one side's processes run at a time, and
rounds alternate. A round lasts from the first submit until the last run is done for good, as each side defines it in
its own module: the same question, the same answer, a no-op between them, the result stored. Ours reserves and charges
as well, exactly once.

Our worker is a container and processes one run at a time; a worker of Procrastinate or DBOS processes ten. So
ours is measured a second time with four workers a core, which wait for the disk together. The floor is a side like the
others: the bare round trips of a run, by as many processes as there are cores.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, LiteralString

from bench.runs import celery, dbos, floor, ours, procrastinate
from bench.support import processes
from bench.support.aws import EventSource, stand_in
from bench.support.output import print_machine, print_table, spread
from bench.support.servers import Place, Servers, peer_packages, servers

CROWD = 4
WARM_RUNS = 40


@dataclass(slots=True)
class Side:
    """One side and its measurements. `cpu_ms`: per run, by process."""

    name: str
    is_peer: bool
    is_durable: bool
    submit: Callable[[processes.Share], None]
    work: Callable[[], None] | None
    done: Callable[[], int]
    prove: Callable[[int], str]
    pids: Mapping[str, int]
    workers_per_core: int = 1
    count: int = 0
    rates: list[float] = field(default_factory=list)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


def main() -> None:
    options = _parser().parse_args()
    processes.exit_on_sigterm()
    runs, rounds = (100, 1) if options.quick else (options.runs, options.rounds)
    packages = peer_packages()
    with servers() as its:
        print_machine(its.postgres.url(), others=_versions(packages))
        print(f"{options.processes} processes submit, as many work; {rounds} rounds of {runs} runs, alternating\n")
        sides = [*_ours(its), *_peers(its, packages)]
        kept = {"ours", "ours, 4 a core", "floor", *(options.only or (side.name for side in sides))}
        sides = [side for side in sides if side.name in kept]
        for number in processes.rounds_in_time(rounds):
            for side in sides:
                _round(side, its.folder, f"r{number}", runs, options.processes)
        _print_rates(sides)
        for side in sides:
            print(f"{side.name}: {side.prove(side.count)}")
        print(LEFT_OUT)
        _print_aim(sides)


def _ours(its: Servers) -> Sequence[Side]:
    def side(name: str, module: Any, workers_per_core: int = 1) -> Side:
        word, cache = _word(name), its.valkey(f"valkey-{_word(name)}")
        place = Place(its.database(word, migrated=module is ours), cache.url, its.enter(stand_in()))
        if module is ours:
            place.create_tenant()
        else:
            place.execute(*floor.TABLES)
        pids = {"Postgres": its.postgres.pid, "Valkey": cache.pid}
        pids["stand-in for AWS"] = EventSource(place.endpoint).stats()["pid"]
        work = partial(ours.worker, place) if module is ours else None
        done, prove = partial(_counted, place, module.DONE), partial(module.proved, place)
        return Side(name, False, True, partial(module.submitter, place), work, done, prove, pids, workers_per_core)

    return [side("ours", ours), side("ours, 4 a core", ours, CROWD), side("floor", floor)]


def _peers(its: Servers, packages: Path) -> Sequence[Side]:
    def on_postgres(name: str, module: Any, submit: Any, work: Any) -> Side:
        place = Place(its.database(_word(name), migrated=False))
        with processes.started([partial(module.prepare, packages, place)]) as preparing:
            preparing[0].join()
        submit, work = partial(submit, packages, place), work and partial(work, packages, place)
        done, prove = partial(_counted, place, module.DONE), partial(module.proved, place)
        return Side(name, True, True, submit, work, done, prove, {"Postgres": its.postgres.pid})

    def on_redis(name: str, appendfsync: str | None) -> Side:
        cache, late = its.valkey(f"valkey-{_word(name)}", appendfsync), appendfsync is not None
        place = Place(redis_url=cache.url)
        submit, work = (partial(one, packages, place, late) for one in (celery.submitter, celery.worker))
        done, prove = partial(celery.done, place), partial(celery.proved, place)
        return Side(name, True, False, submit, work, done, prove, {"Valkey": cache.pid})

    return [
        on_postgres("procrastinate", procrastinate, procrastinate.submitter, procrastinate.worker),
        on_postgres("dbos, queued", dbos, dbos.submitter, dbos.worker),
        on_postgres("dbos, direct", dbos, dbos.runner, None),
        on_redis("celery", None),
        on_redis("celery, everysec", "everysec"),
        on_redis("celery, always", "always"),
    ]


def _counted(place: Place, query: LiteralString) -> int:
    return int(place.row(query)[0])


def _word(name: str) -> str:
    return name.replace(", ", "_").replace(" ", "_")


def _round(side: Side, folder: Path, name: str, runs: int, count: int) -> None:
    """Start the workers, let them warm up, and measure."""
    with processes.started([side.work] * count * side.workers_per_core if side.work else []) as workers:
        _process(side, folder, f"{name}-warm", WARM_RUNS, count)
        pids = {name: [pid] for name, pid in side.pids.items()}
        pids["workers"] = [worker.pid or 0 for worker in workers]
        before = {name: processes.cpu_seconds(its) for name, its in pids.items()}
        spent, ended = _process(side, folder, name, runs, count)
        side.rates.append(runs / (ended - spent.began))
        used = {name: processes.cpu_seconds(its) - before[name] for name, its in pids.items()}
        for who, seconds in {"submitters": spent.cpu_seconds, **used}.items():
            side.cpu_ms.setdefault(who, []).append(1_000 * seconds / runs)


def _process(side: Side, folder: Path, name: str, runs: int, count: int) -> tuple[processes.Spent, float]:
    """Process more runs. Returns what submitting them took, and when all were done for good."""
    side.count += runs
    spent = processes.run_shares(side.submit, f"order-{name}", runs, count, folder / f"{side.name}.{name}")
    processes.wait_until(lambda: side.done() >= side.count, f"{side.name}: some runs are not done")
    return spent, time.time()


def _versions(packages: Path) -> dict[str, str]:
    found = {one.name.lower(): one.version for one in distributions(path=[str(packages)])}
    return {name: found[name] for name in ("celery", "dbos", "kombu", "procrastinate", "sqlalchemy")}


def _print_rates(sides: Sequence[Side]) -> None:
    best, floor_rate = _best(sides), next(side.rate for side in sides if side.name == "floor")
    rows = []
    for side in sides:
        used = {who: statistics.median(values) for who, values in side.cpu_ms.items()}
        cpu = ", ".join(f"{who} {value:.1f}" for who, value in used.items() if value)
        ratios = f"{best.rate / side.rate:.2f} ×", f"{side.rate / floor_rate:.2f} ×"
        rows.append((side.name, spread(side.rates), *ratios, cpu))
    print_table(("", "runs/s, median (rounds)", "our best /", "/ floor", "processor time, ms a run"), rows)
    print()


def _print_aim(sides: Sequence[Side]) -> None:
    ours_best, durable = _best(sides), [side for side in sides if side.is_peer and side.is_durable]
    if not durable:
        return
    ahead = [f"{one.name} by {1 - ours_best.rate / one.rate:.0%}" for one in durable if one.rate >= ours_best.rate]
    peer = max(durable, key=lambda side: side.rate)
    ratio = f"met: {ours_best.rate / peer.rate:.2f} × the best, {peer.name}"
    result = f"missed: behind {', '.join(ahead)}" if ahead else ratio
    print(f"aim, {ours_best.name} ahead of every durable peer: {result}")


def _best(sides: Sequence[Side]) -> Side:
    """The better of our two settings."""
    return max((side for side in sides if side.name.startswith("ours")), key=lambda side: side.rate)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of 100 runs: checks that the bench works")
    parser.add_argument("--runs", type=int, default=600, help="in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=os.process_cpu_count() or 1)
    parser.add_argument("--only", nargs="*", help="measure only these sides; ours and the floor always")
    return parser


LEFT_OUT = """
ours, not included: API Gateway, authentication, the pack process, Lambda's runtime, AWS's own 10 to 20 ms a call
ours, more than the others: each run is reserved and charged exactly once; a lease with heartbeat; a claim before the
  result
celery is not durable: by default Redis keeps nothing on disk, and a task is acknowledged before it runs. `everysec` and
  `always` are an append-only file with late acknowledgement; a worker that dies right after its BRPOP still loses a
  task
"""

if __name__ == "__main__":
    main()
