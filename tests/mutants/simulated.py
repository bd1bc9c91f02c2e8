"""Runs the simulation on a copy of the sources that contains a mutation, in this process."""

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tests
from tests.mutants.mutation import Mutation, Simulation, plant

ROOT = Path(__file__).parents[2]
WITHIN_SEEDS = 1_500
_COPIED = ("layers/dpp/python/dpp", "migrations/sql", "tests/sim")
_IMPORTED_ANEW = ("dpp", "tests.sim")


def is_found(mutation: Mutation, simulation: Simulation) -> bool:
    """True if a seed of the simulation breaks an invariant because of the mutation."""
    with planted(mutation) as command:
        faults = importlib.import_module("tests.sim.faults")
        slow = simulation is Simulation.WITH_SLOW_CALLS
        allowed = frozenset({faults.Fault.SLOW}) if slow else faults.KEPT_DATA
        return command.first_broken(WITHIN_SEEDS, allowed) is not None


@contextmanager
def planted(mutation: Mutation) -> Iterator[Any]:
    """tests.sim.command, imported anew from a copy of the sources that contains the mutation."""
    with TemporaryDirectory(prefix="dpp-mutant-") as scratch:
        root = Path(scratch)
        for folder in _COPIED:
            shutil.copytree(ROOT / folder, root / folder, copy_function=os.symlink)
        plant(root, mutation)
        with _imported_from(root):
            yield importlib.import_module("tests.sim.command")


@contextmanager
def _imported_from(root: Path) -> Iterator[None]:
    hidden = _ours()
    paths, packages, writes = list(sys.path), list(tests.__path__), sys.dont_write_bytecode
    for name in hidden:
        del sys.modules[name]
    sys.path.insert(0, str(root / "layers/dpp/python"))
    tests.__path__[:] = [str(root / "tests")]
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        for name in _ours():
            del sys.modules[name]
        sys.modules |= hidden
        sys.path[:], tests.__path__[:], sys.dont_write_bytecode = paths, packages, writes
        if "tests.sim" in hidden:
            vars(tests)["sim"] = hidden["tests.sim"]


def _ours() -> dict[str, Any]:
    return {
        name: module
        for name, module in sys.modules.items()
        if any(name == package or name.startswith(f"{package}.") for package in _IMPORTED_ANEW)
    }
