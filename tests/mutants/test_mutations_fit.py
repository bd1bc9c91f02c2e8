"""Every mutation still fits the sources. `make mutants` shows that each is caught."""

import shutil
from pathlib import Path

import pytest

from tests.mutants.mutation import MUTATIONS, Mutation, Simulation, plant
from tests.mutants.simulated import ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutations_place_and_tests_exist(mutation: Mutation, tmp_path: Path) -> None:
    """Otherwise a mutation without effect would count as caught by a test that fails for another reason."""
    for edit in mutation.edits:
        (tmp_path / edit.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / edit.path, tmp_path / edit.path)
    plant(tmp_path, mutation)
    assert mutation.caught_by
    for catcher in mutation.caught_by:
        if not isinstance(catcher, Simulation):
            path, *names = catcher.split("::")
            text = (ROOT / path).read_text()
            assert all(f"def {name}(" in text or f"class {name}" in text for name in names)


def test_every_mutation_has_its_own_name() -> None:
    """They are selected by name."""
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
