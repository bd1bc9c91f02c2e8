"""Leftover processes that `dpp local up` ends, and those it spares: its own children carry the stack's mark, too."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpp_cli.local import localstack, parts
from dpp_cli.local.processes import MARK, ProcessIdentity
from dpp_cli.local.state import PartRecord, StateStore

_SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def marked_child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """As initdb is one of `up`, and as a function is one of a LocalStack that was killed."""
    child = subprocess.Popen(_SLEEP, env={**os.environ, MARK: str(tmp_path)})
    yield child
    child.kill()
    child.wait()


@pytest.fixture(autouse=True)
def no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """LocalStack is the stack's own."""
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


def _is_gone(child: subprocess.Popen[bytes]) -> bool:
    return not Path(f"/proc/{child.pid}/environ").exists() or child.poll() is not None


def test_localstack_s_start_ends_nothing_of_what_starts_beside_it(
    tmp_path: Path, marked_child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres is made in the other lane: its initdb was killed here, and its exit status taken away."""
    started = SimpleNamespace(identity=ProcessIdentity.of(os.getpid()), port=1)
    monkeypatch.setattr(localstack.LocalStackServer, "start", lambda *_: started)
    parts.ensure_localstack(StateStore(tmp_path))
    assert not _is_gone(marked_child)


def test_what_a_localstack_that_is_gone_has_left_is_ended_before(
    tmp_path: Path, marked_child: subprocess.Popen[bytes]
) -> None:
    """Its functions outlive it where it is killed hard."""
    store = StateStore(tmp_path)
    store.record(parts.LOCALSTACK, PartRecord(pid=os.getpid(), birth="another boot:1", port=1))
    parts.clear_localstack(store)
    assert _is_gone(marked_child)


@pytest.mark.parametrize("healthy", [True, False])
def test_a_localstack_that_answers_keeps_its_functions(
    tmp_path: Path, marked_child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, healthy: bool
) -> None:
    """One that is deaf is ended, and forgotten, so that another is started."""
    deaf = subprocess.Popen(_SLEEP)
    store = StateStore(tmp_path)
    identity = ProcessIdentity.of(deaf.pid)
    assert identity is not None
    store.record(parts.LOCALSTACK, PartRecord.of(identity, 1))
    monkeypatch.setattr(localstack, "healthy", lambda _: healthy)
    parts.clear_localstack(store)
    assert _is_gone(marked_child) is not healthy
    assert (parts.LOCALSTACK in store.state.parts) is healthy
    deaf.kill()
    deaf.wait()
