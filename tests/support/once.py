"""Files that the processes of one test session share; the first process that needs a file makes it."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same for all its processes."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def made_once(path: Path, make: Callable[[], str]) -> str:
    """The text of `path`, which the first caller makes while the others wait."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            unfinished = path.with_suffix(".part")
            unfinished.write_text(make(), encoding="utf-8")
            unfinished.rename(path)
    return path.read_text(encoding="utf-8")
