"""Put each mutation into a copy of the sources and run the tests and simulations that must catch it.

The exit code is 1 if a mutation survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.mutants.mutation import MUTATIONS, Mutation, Simulation, plant
from tests.mutants.simulated import ROOT, WITHIN_SEEDS, is_found

_COPIED = ("layers", "functions", "cli", "cdk", "migrations", "tests", "docs", "bench", "pyproject.toml", "cdk.json")
_TESTS_FAILED = 1  # pytest's exit code; any other means that the test did not run
_AT_ONCE = max(1, min(4, os.process_cpu_count() or 1))


@dataclass(frozen=True)
class Verdict:
    """The result of one test or simulation of a mutation."""

    mutation: Mutation
    catcher: str
    caught: bool
    seconds: float
    output: str


def main() -> int:
    """Try the selected mutations; 1 if one survives, or if a test fails without a mutation."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="select the mutations whose names contain one of these words")
    words = parser.parse_args().words
    chosen = [found for found in MUTATIONS if not words or any(word in found.name for word in words)]
    if not chosen:
        _print(f"No mutation has such a name. The names are: {', '.join(found.name for found in MUTATIONS)}")
        return 1
    started = time.monotonic()
    tests = {catcher for found in chosen for catcher in found.caught_by if not isinstance(catcher, Simulation)}
    control = _run(sorted(tests)) if tests else None
    if control and control.returncode:
        _print(f"The tests fail without any mutation:\n{(control.stdout + control.stderr)[-5000:]}")
        return 1
    pairs = [(found, catcher) for found in chosen for catcher in found.caught_by]
    with ProcessPoolExecutor(_AT_ONCE, get_context("spawn")) as simulating, ThreadPoolExecutor(_AT_ONCE) as pool:
        verdicts = list(pool.map(partial(_try, simulating), *zip(*pairs, strict=True)))
    survived = [verdict for verdict in verdicts if not verdict.caught]
    for verdict in survived:
        found = verdict.mutation
        _print(f"\n{found.name} ({verdict.catcher}): {found.consequence}\n{verdict.output[-3000:]}")
    _print(
        f"{len(pairs) - len(survived)} of {len(pairs)} checks caught their mutation, {len(chosen)} mutations, "
        f"{time.monotonic() - started:.0f} s"
    )
    return 1 if survived else 0


def _try(simulating: ProcessPoolExecutor, mutation: Mutation, catcher: str | Simulation) -> Verdict:
    started = time.monotonic()
    if isinstance(catcher, Simulation):
        name, output = catcher.value, f"no seed below {WITHIN_SEEDS} breaks an invariant"
        caught = simulating.submit(is_found, mutation, catcher).result()
    else:
        done = _run([catcher], mutation)
        name, output, caught = catcher, done.stdout + done.stderr, done.returncode == _TESTS_FAILED
    seconds = time.monotonic() - started
    _print(f"{'caught' if caught else 'SURVIVED':9} {seconds:5.1f} s  {mutation.name} ({name})")
    return Verdict(mutation, name, caught, seconds, output)


def _run(tests: list[str], mutation: Mutation | None = None) -> subprocess.CompletedProcess[str]:
    """Run tests on a copy of the sources that contains the mutation."""
    with tempfile.TemporaryDirectory(prefix="dpp-mutant-") as scratch:
        copy = Path(scratch)
        _copy(copy)
        if mutation is not None:
            plant(copy, mutation)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        sources = ("layers/dpp/python", "functions", "cli", "cdk", ".")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(copy / source) for source in sources)}
        return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _copy(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", ".*", "node_modules")
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)


if __name__ == "__main__":
    sys.exit(main())
