"""What a mutation is, and how it is put into a copy of the sources."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_PACKAGE = Path("layers/dpp/python/dpp")


class Simulation(Enum):
    """The simulation must find the mutation within a bounded number of seeds (tests/mutants/simulated.py)."""

    WITH_ALL_FAULTS = "all faults"
    """All but the loss of data in Redis, whose repair could hide the mutation."""
    WITH_SLOW_CALLS = "slow calls"
    """Only slow calls, for a race that other faults would end first."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`before` occurs exactly once in `file` (below the package `dpp`, or in `migrations/`) and becomes `after`."""

    file: str
    before: str
    after: str

    @property
    def path(self) -> Path:
        """The file, relative to the repository."""
        return Path(self.file) if self.file.startswith("migrations/") else _PACKAGE / self.file


@dataclass(frozen=True, slots=True)
class Mutation:
    """A deliberate bug. Each of `caught_by` must catch it: a test by its pytest id, or the simulation."""

    name: str
    consequence: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str | Simulation, ...]


def mutation(
    name: str,
    consequence: str,
    file: str,
    before: str,
    after: str,
    *caught_by: str | Simulation,
    also: tuple[Edit, ...] = (),
) -> Mutation:
    """A mutation of one edit, or of several with `also`."""
    return Mutation(name, consequence, (Edit(file, before, after), *also), caught_by)


def plant(root: Path, planted: Mutation) -> None:
    """Put a mutation into the sources below `root`. Raises ValueError if a place is not found exactly once."""
    for edit in planted.edits:
        path = root / edit.path
        text = path.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            raise ValueError(
                f"{planted.name}: its text occurs {text.count(edit.before)} times in {edit.file}, not once. "
                "Adapt the mutation to the source."
            )
        path.unlink()  # it can be a link to the original
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
