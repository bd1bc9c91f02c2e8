"""The command: run many seeds; for one that breaks a promise, its shrunk schedule."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from tests.sim.faults import ALL, Fault
from tests.sim.installed import installed
from tests.sim.report import decisions_text, report
from tests.sim.run import Verdict, simulate
from tests.sim.shrink import shrunk

_CHUNK = 250
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Tally:
    """What a stretch of seeds did."""

    seeds: int
    steps: int
    runs: int
    disputed: int
    failures: tuple[int, ...]


def run_seeds(first: int, count: int, allowed: frozenset[Fault]) -> Tally:
    """Run a stretch of seeds."""
    steps = runs = disputed = 0
    failures: list[int] = []
    with installed():
        for seed in range(first, first + count):
            verdict = simulate(seed, allowed)
            steps += verdict.steps
            runs += verdict.runs
            disputed += verdict.disputed
            if not verdict.kept:
                failures.append(seed)
    return Tally(count, steps, runs, disputed, tuple(failures))


def smallest(seed: int, allowed: frozenset[Fault]) -> Verdict:
    """A failing seed's schedule, shrunk, as its replay goes."""
    with installed():
        decisions = simulate(seed, allowed).decisions
        small = shrunk(decisions, lambda candidate: not simulate(candidate, allowed).kept)
        return simulate(small, allowed)


def main(arguments: list[str] | None = None) -> int:
    """The command. 0 where every promise was kept."""
    options = _parser().parse_args(arguments)
    allowed = ALL - {Fault(name) for name in options.without}
    if options.replay is not None:
        with installed():
            verdict = simulate([int(choice) for choice in options.replay.split(",") if choice], allowed)
        _say(report(verdict))
        return 0 if verdict.kept else 1
    if options.seed is not None:
        return _one(options.seed, allowed, whole=options.whole)
    return _many(options.first, options.seeds, options.jobs, allowed)


def _one(seed: int, allowed: frozenset[Fault], *, whole: bool) -> int:
    with installed():
        verdict = simulate(seed, allowed)
    if verdict.kept or whole:
        _say(report(verdict))
        _say(f"seed {seed}: {'every promise kept' if verdict.kept else 'broken'} in {verdict.steps} steps")
        return 0 if verdict.kept else 1
    _show(seed, allowed)
    return 1


def _many(first: int, seeds: int, jobs: int, allowed: frozenset[Fault]) -> int:
    began = time.monotonic()
    done = steps = runs = disputed = 0
    failures: list[int] = []
    for tally in _tallies(first, seeds, jobs, allowed):
        done += tally.seeds
        steps += tally.steps
        runs += tally.runs
        disputed += tally.disputed
        failures += tally.failures
        rate = done / (time.monotonic() - began)
        _say(
            f"{done:>8} of {seeds} seeds, {rate:.0f}/s: {steps} steps, {runs} runs, {disputed} disputed, "
            f"{len(failures)} broken",
        )
    for seed in failures[:_SHOWN]:
        _show(seed, allowed)
    seconds = time.monotonic() - began
    _say(f"{seeds} seeds in {seconds:.0f} s, {len(failures)} of them broke a promise {failures[:20] or ''}")
    return 1 if failures else 0


def _tallies(first: int, seeds: int, jobs: int, allowed: frozenset[Fault]) -> Iterator[Tally]:
    stretches = [(start, min(_CHUNK, first + seeds - start)) for start in range(first, first + seeds, _CHUNK)]
    if jobs == 1:
        yield from (run_seeds(start, count, allowed) for start, count in stretches)
        return
    # Spawned, not forked: the threads of the actors would not be there in a fork.
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run_seeds, start, count, allowed) for start, count in stretches]
        for stretch in running:
            yield stretch.result()


def _show(seed: int, allowed: frozenset[Fault]) -> None:
    verdict = smallest(seed, allowed)
    _say(f"\nseed {seed}, shrunk:\n{report(verdict)}")
    _say(f"\n  again: python -m tests.sim --replay {decisions_text(verdict.decisions)}\n")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--seed", type=int, help="run this one alone; if it fails, shrink and show it")
    parser.add_argument("--whole", action="store_true", help="with --seed: show its whole schedule")
    parser.add_argument("--replay", help="run recorded decisions, as a failure prints them")
    names = [fault.value for fault in Fault]
    parser.add_argument("--without", action="append", default=[], choices=names, help="switch a fault off")
    return parser
