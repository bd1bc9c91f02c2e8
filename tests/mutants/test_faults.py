"""The faults keep fitting the sources; `make mutants` shows that each is caught."""

import shutil
from pathlib import Path

import pytest

from tests.mutants.__main__ import spoil
from tests.mutants.fault import Fault
from tests.mutants.faults import FAULTS

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faults_place_and_its_test_are_there(fault: Fault, tmp_path: Path) -> None:
    """A fault that no longer applies would count as caught by a test that fails for another reason."""
    copied = tmp_path / "layers/dpp/python/dpp" / fault.file
    copied.parent.mkdir(parents=True)
    shutil.copy(_ROOT / "layers/dpp/python/dpp" / fault.file, copied)
    spoil(tmp_path, fault)
    path, _, name = fault.caught_by.partition("::")
    assert (
        f"def {name.rpartition('::')[2]}(" in (_ROOT / path).read_text() if name else (_ROOT / path).exists()
    )


def test_every_fault_has_a_name_of_its_own() -> None:
    """They are chosen by name."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 12
