"""Simulate many schedules, one for each seed. For a seed that breaks an invariant, print its shrunk schedule."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from tests.sim.faults import ALL, Fault
from tests.sim.patches import patched
from tests.sim.run import Verdict, report, simulate
from tests.sim.shrink import shrunk

_CHUNK = 250
_REPORTED_FAILURES = 3


class Tally(NamedTuple):
    """The results of a number of seeds."""

    seeds: int = 0
    steps: int = 0
    runs: int = 0
    disputed: int = 0
    failures: tuple[int, ...] = ()

    def with_(self, other: "Tally") -> "Tally":
        """The results of both."""
        return Tally(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))  # type: ignore[operator]


def run_seeds(first: int, count: int, allowed: frozenset[Fault]) -> Tally:
    """Simulate `count` seeds from `first` on."""
    tally = Tally()
    with patched():
        for seed in range(first, first + count):
            verdict = simulate(seed, allowed)
            failures = (seed,) if verdict.broken else ()
            tally = tally.with_(Tally(1, verdict.steps, verdict.runs, verdict.disputed, failures))
    return tally


def first_broken(seeds: int, allowed: frozenset[Fault]) -> Verdict | None:
    """The verdict of the first seed below `seeds` that breaks an invariant."""
    with patched():
        verdicts = (simulate(seed, allowed) for seed in range(seeds))
        return next((verdict for verdict in verdicts if verdict.broken), None)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 if no invariant was broken."""
    options = _parser().parse_args(arguments)
    allowed = ALL - {Fault(name) for name in options.without}
    if options.replay is not None:
        with patched():
            verdict = simulate([int(choice) for choice in options.replay.split(",") if choice], allowed)
        _print(report(verdict))
        return 1 if verdict.broken else 0
    if options.seed is not None:
        return _one(options.seed, allowed, whole=options.whole)
    return _many(options.first, options.seeds, options.jobs, allowed)


def _one(seed: int, allowed: frozenset[Fault], *, whole: bool) -> int:
    with patched():
        verdict = simulate(seed, allowed)
    if verdict.broken and not whole:
        _print_shrunk(seed, allowed)
        return 1
    result = f"{len(verdict.broken)} invariants broken" if verdict.broken else "no invariant broken"
    _print(f"{report(verdict)}\nseed {seed}: {result} in {verdict.steps} steps")
    return 1 if verdict.broken else 0


def _many(first: int, seeds: int, jobs: int, allowed: frozenset[Fault]) -> int:
    began = time.monotonic()
    total = Tally()
    for tally in _tallies(first, seeds, jobs, allowed):
        total = total.with_(tally)
        rate = total.seeds / (time.monotonic() - began)
        _print(
            f"{total.seeds:>8} of {seeds} seeds, {rate:.0f}/s: {total.steps} steps, {total.runs} runs, "
            f"{total.disputed} disputed, {len(total.failures)} broken"
        )
    for seed in total.failures[:_REPORTED_FAILURES]:
        _print_shrunk(seed, allowed)
    seconds = time.monotonic() - began
    _print(
        f"{seeds} seeds in {seconds:.0f} s; {len(total.failures)} broke an invariant {list(total.failures[:20]) or ''}"
    )
    return 1 if total.failures else 0


def _tallies(first: int, seeds: int, jobs: int, allowed: frozenset[Fault]) -> Iterator[Tally]:
    chunks = [(start, min(_CHUNK, first + seeds - start)) for start in range(first, first + seeds, _CHUNK)]
    if jobs == 1:
        yield from (run_seeds(start, count, allowed) for start, count in chunks)
        return
    # Spawned, not forked: a fork would not have the actors' threads.
    with ProcessPoolExecutor(max_workers=jobs, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(run_seeds, start, count, allowed) for start, count in chunks]:
            yield future.result()


def _print_shrunk(seed: int, allowed: frozenset[Fault]) -> None:
    with patched():
        decisions = simulate(seed, allowed).decisions
        small = shrunk(decisions, lambda candidate: bool(simulate(candidate, allowed).broken))
        verdict = simulate(small, allowed)
    replay = ",".join(map(str, verdict.decisions))
    _print(f"\nseed {seed}, shrunk:\n{report(verdict)}\n\n  Replay it: python -m tests.sim --replay {replay}\n")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="number of seeds (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="first seed (default 0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="number of processes")
    parser.add_argument("--seed", type=int, help="simulate this seed only; if it fails, print it shrunk")
    parser.add_argument("--whole", action="store_true", help="with --seed: print the whole schedule")
    parser.add_argument("--replay", help="replay the decisions that a failure printed")
    names = [fault.value for fault in Fault]
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=names,
        metavar="FAULT",
        help=f"switch a fault off: {', '.join(names)}",
    )
    return parser
