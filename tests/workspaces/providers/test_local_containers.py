"""Containers as processes: found by any process, started once, ended with their children (WS-9)."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from dpp.workspaces.ports import Volume
from dpp.workspaces.providers import processes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.local_containers import ProcessContainers

REPORT = """
import json, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("to the log", flush=True)
with open("report", "w") as file:
    json.dump({
        "pid": os.getpid(), "cwd": os.getcwd(), "environment": dict(os.environ),
        "session": os.getsid(0), "stdin": os.readlink("/proc/self/fd/0"), "fds": sorted(os.listdir("/proc/self/fd")),
    }, file)
signal.sigwait({signal.SIGTERM})
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("report", "w").write("{}")
signal.pause()
"""
FAMILY = """
import json, os, signal, subprocess, sys
wait = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
children = [
    subprocess.Popen(wait),
    subprocess.Popen(wait, start_new_session=True),
    subprocess.Popen(wait, env={}),
    subprocess.Popen([sys.executable, "-I", "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:])", *wait]),
]
open("report", "w").write(json.dumps([os.getpid(), *(child.pid for child in children)]))
signal.pause()
"""


class _Environment:
    """A workspace with a volume, and containers to run on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace_id = uuid4()
        self.volumes = DirectoryVolumes(root / "volumes", processes.is_running)
        self.volumes.set_up()
        prepared = self.volumes.prepare(self.workspace_id, "g1")
        self.volume = self.volumes.install(self.workspace_id, "g1", "a1", prepared)

    def containers(self, script: str | None = None, **how: float) -> ProcessContainers:
        """Containers that run a Python script, or the default program."""
        command = None if script is None else [sys.executable, "-I", "-c", script]
        return ProcessContainers(self.root / "containers", self.volumes, command, {"GIVEN": "1"}, **how)

    def start(self, containers: ProcessContainers) -> None:
        containers.start(self.workspace_id, self.volume)

    def reported(self, containers: ProcessContainers) -> object:
        """Start the container, and wait for its report."""
        os.mkfifo(self.volume.home / "report")
        self.start(containers)
        return json.loads((self.volume.home / "report").read_text())

    def is_running(self) -> bool:
        return self.containers().observe([self.workspace_id])[self.workspace_id].ready

    def pids(self) -> list[int]:
        """The container's live processes."""
        return [pid for pid in processes._pids() if processes._workspace_of(pid) == self.workspace_id]

    def close(self) -> None:
        assert processes.end(self.workspace_id, 0, 10)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[_Environment]:
    """An environment whose processes end with the test."""
    with closing(_Environment(tmp_path)) as opened:
        yield opened


def _is_living(pid: int) -> bool:
    return processes._session_of(pid) is not None


def test_container_runs_in_its_home_with_its_own_environment(
    env: _Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of the platform")
    report = env.reported(env.containers(REPORT))
    assert isinstance(report, Mapping)
    home = str(env.volume.home)
    assert report["cwd"] == home
    assert report["session"] == report["pid"]
    assert report["stdin"] == "/dev/null"
    environment = {name: value for name, value in report["environment"].items() if name != "LC_CTYPE"}
    assert environment == {"HOME": home, "PATH": os.defpath, "GIVEN": "1", "DPP_CONTAINER": f"ws-{env.workspace_id}"}
    assert len(report["fds"]) <= 5
    log = env.root / "containers" / "logs" / f"ws-{env.workspace_id}.log"
    assert log.read_text() == "to the log\n"


def test_concurrent_starts_start_one_container(env: _Environment) -> None:
    barrier = threading.Barrier(5)

    def start() -> None:
        containers = env.containers()
        barrier.wait()
        env.start(containers)

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(env.pids()) == 1


def test_start_returns_when_the_container_is_visible(env: _Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between exec and the moment at which /proc shows the environment, a process belongs to no container."""
    real = processes._workspace_of
    left = 3

    def late(pid: int) -> UUID | None:
        nonlocal left
        found = real(pid)
        left -= found == env.workspace_id
        return None if left > 0 else found

    monkeypatch.setattr(processes, "_workspace_of", late)
    env.start(env.containers())
    assert left == 0
    assert env.is_running()


def test_start_does_not_wait_for_a_container_that_has_ended(env: _Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_workspace_of", lambda _pid: None)
    env.start(env.containers("import os; os._exit(1)"))
    assert not env.is_running()


def test_container_survives_its_starter_and_is_found_by_other_processes(env: _Environment) -> None:
    """A process killed right after starting a container has recorded nothing, and nothing leaks."""
    script = """
import os, signal, sys
from pathlib import Path
from uuid import UUID
from dpp.workspaces.providers import processes
from dpp.workspaces.providers.directory_volumes import DirectoryVolumes
from dpp.workspaces.providers.local_containers import ProcessContainers
root, workspace_id = Path(sys.argv[1]), UUID(sys.argv[2])
volumes = DirectoryVolumes(root / "volumes", processes.is_running)
containers = ProcessContainers(root / "containers", volumes)
volume = volumes.find(workspace_id)
def die(*_):
    if processes.is_running(workspace_id):
        os.kill(os.getpid(), signal.SIGKILL)
ProcessContainers._check = die
containers.start(workspace_id, volume)
"""
    started = subprocess.run([sys.executable, "-c", script, env.root, str(env.workspace_id)], check=False)
    assert started.returncode == -signal.SIGKILL
    assert env.is_running()
    env.start(env.containers())
    assert len(env.pids()) == 1
    with pytest.raises(OperationFailed, match="VolumeInUse"):
        env.volumes.delete(env.workspace_id, "g1")
    env.containers().stop(env.workspace_id)
    assert not env.is_running()


def test_ended_container_is_reaped(env: _Environment) -> None:
    env.start(env.containers())
    [pid] = env.pids()
    env.containers().stop(env.workspace_id)
    for thread in threading.enumerate():
        if thread.name == f"reap ws-{env.workspace_id}":
            thread.join()
    assert not Path(f"/proc/{pid}").exists()
    assert not env.is_running()


def test_zombie_is_not_running(env: _Environment) -> None:
    environment = {processes.VARIABLE: f"ws-{env.workspace_id}"}
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""], env=environment)
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert Path(f"/proc/{dead.pid}").exists()
        assert not env.is_running()
        env.containers().stop(env.workspace_id)
    finally:
        dead.wait()


def test_container_that_ignores_sigterm_is_killed(env: _Environment) -> None:
    containers = env.containers(STUBBORN, grace_seconds=0.1)
    env.reported(containers)
    [pid] = env.pids()
    containers.stop(env.workspace_id)
    assert not _is_living(pid)
    assert not env.is_running()


def test_stop_ends_child_processes(env: _Environment) -> None:
    containers = env.containers(FAMILY, grace_seconds=5)
    children = env.reported(containers)
    assert isinstance(children, list)
    pids = {*children, *env.pids()}
    assert len(pids) >= 5
    containers.stop(env.workspace_id)
    assert [pid for pid in pids if _is_living(pid)] == []


def test_surviving_child_processes_count_as_running(env: _Environment) -> None:
    """They may write to the volume, which must not be deleted."""
    pids = env.reported(env.containers(FAMILY))
    assert isinstance(pids, list)
    leader = pids[0]
    os.kill(leader, signal.SIGKILL)
    for thread in threading.enumerate():
        if thread.name == f"reap ws-{env.workspace_id}":
            thread.join()
    assert not _is_living(leader)
    assert env.is_running()
    env.containers().stop(env.workspace_id)
    assert not env.is_running()


def test_stop_fails_if_the_container_can_not_be_killed(env: _Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = env.containers(grace_seconds=0.01)
    env.start(containers)
    with monkeypatch.context() as patched:
        patched.setattr("dpp.workspaces.providers.local_containers._KILL_SECONDS", 0.01)
        patched.setattr(signal, "pidfd_send_signal", lambda *_: None)
        with pytest.raises(OperationFailed, match="ContainerWontStop") as failed:
            containers.stop(env.workspace_id)
    assert not failed.value.is_terminal
    assert env.is_running()


class _Vanishing:
    """Volumes of which one is found once, and then is missing or unknown."""

    def __init__(self, volume: Volume, then: Exception | None) -> None:
        self._answers: list[Volume | None] = [volume]
        self._then = then

    def find(self, workspace_id: UUID) -> Volume | None:
        if self._answers:
            return self._answers.pop()
        if self._then:
            raise self._then
        return None


@pytest.mark.parametrize("then", [None, ProviderUnavailable("gone")])
def test_container_is_ended_if_its_volume_is_deleted_during_the_start(
    env: _Environment, then: Exception | None
) -> None:
    volumes = _Vanishing(env.volume, then)
    containers = ProcessContainers(env.root / "containers", volumes)  # type: ignore[arg-type]
    with pytest.raises(OperationFailed if then is None else ProviderUnavailable):
        env.start(containers)
    assert env.pids() == []


def test_invalid_command_fails_the_operation(env: _Environment) -> None:
    containers = ProcessContainers(env.root / "containers", env.volumes, ["/no/such/program"])
    with pytest.raises(OperationFailed, match="ContainerNotStarted: The file system returned ENOENT"):
        env.start(containers)
    assert not env.is_running()


def test_observing_a_fleet_reads_proc_once(env: _Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    env.start(env.containers())
    readings = []
    real = processes._pids

    def counted() -> Iterator[int]:
        readings.append(1)
        return real()

    monkeypatch.setattr(processes, "_pids", counted)
    others = [uuid4() for _ in range(500)]
    seen = env.containers().observe([*others, env.workspace_id])
    assert [one for one, found in seen.items() if found.ready] == [env.workspace_id]
    assert len(seen) == 501
    assert len(readings) == 1


def test_stop_keeps_other_containers(env: _Environment, tmp_path: Path) -> None:
    with closing(_Environment(tmp_path / "other")) as other:
        for one in (env, other):
            one.start(one.containers())
        env.containers().stop(env.workspace_id)
        assert not env.is_running()
        assert other.is_running()


def test_process_with_an_invalid_name_is_no_container(env: _Environment) -> None:
    for name in ("ws-", "ws-nonsense", f"ws-{env.workspace_id}-home"):
        lying = subprocess.Popen(
            [sys.executable, "-S", "-c", "input()"], env={processes.VARIABLE: name}, stdin=subprocess.PIPE
        )
        try:
            assert not env.is_running()
        finally:
            lying.communicate(b"\n")
