"""Sandboxes that are stopped at the end of their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpp_cli.deploy.toolchain import lambda_python
from tests.local.functions import Workbench
from tests.local.shell import OperatorShell, named_rows
from tests.support.world import World


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter that functions run under: awslambdaric and nothing else."""
    return lambda_python()


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    """A shell whose environment names the database and the reports bucket."""
    monkeypatch.setenv("DPP_REPORTS_BUCKET", world.bucket)
    return named_rows(monkeypatch, world.database_url)


@pytest.fixture
def workbench(tmp_path: Path, python: Path) -> Iterator[Workbench]:
    """A place for the functions of one test; their processes end with it."""
    bench = Workbench(tmp_path, python)
    yield bench
    bench.stop_all()
