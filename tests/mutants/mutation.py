"""The mutations of the *.toml files beside this module, and how one is put into a copy of the sources.

Each table of a file is a mutation:

    [name]
    consequence = "…"                # what it would cost in production
    caught_by = ["tests/…::test_…"]  # pytest ids, "simulation", or "simulation of slow calls"; each must catch it
    file = "…"                       # below the package `dpp`, or in migrations/
    before = '…'                     # occurs exactly once in the file
    after = '…'                      # what it becomes

A mutation of several edits has `[[name.edits]]` with `file`, `before` and `after`.
"""

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_FOLDER = Path(__file__).parent
_PACKAGE = Path("layers/dpp/python/dpp")


class Simulation(StrEnum):
    """The simulation must find the mutation within a bounded number of seeds (tests/mutants/simulated.py)."""

    WITH_ALL_FAULTS = "simulation"
    """All but the loss of data in Redis, whose repair could hide the mutation."""
    WITH_SLOW_CALLS = "simulation of slow calls"
    """Only slow calls, for a race that other faults would end first."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`before` becomes `after`."""

    file: str
    before: str
    after: str

    @property
    def path(self) -> Path:
        """The file, relative to the repository."""
        return Path(self.file) if self.file.startswith("migrations/") else _PACKAGE / self.file


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate bug, and the tests and simulations that must catch it."""

    name: str
    consequence: str
    caught_by: tuple[str | Simulation, ...]
    edits: tuple[Edit, ...]


def _read(path: Path) -> list[Mutation]:
    simulations = {simulation.value: simulation for simulation in Simulation}
    return [
        Mutation(
            name,
            table.pop("consequence"),
            tuple(simulations.get(catcher, catcher) for catcher in table.pop("caught_by")),
            tuple(Edit(**edit) for edit in table.pop("edits", [])) or (Edit(**table),),
        )
        for name, table in tomllib.loads(path.read_text(encoding="utf-8")).items()
    ]


MUTATIONS = tuple(mutation for path in sorted(_FOLDER.glob("*.toml")) for mutation in _read(path))
SIMULATED = tuple(
    (mutation, catcher) for mutation in MUTATIONS for catcher in mutation.caught_by if isinstance(catcher, Simulation)
)
"""The mutations that the simulation must find."""


def plant(root: Path, mutation: Mutation) -> None:
    """Put a mutation into the sources below `root`. Raises ValueError if a place is not found exactly once."""
    for edit in mutation.edits:
        path = root / edit.path
        text = path.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            raise ValueError(
                f"{mutation.name}: its text occurs {text.count(edit.before)} times in {edit.file}, not once. "
                "Adapt the mutation to the source."
            )
        path.unlink()  # it can be a link to the original
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
