"""Containers as processes: found whoever started them, started once, ended with all that they started (WS-9)."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
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


class _Stage:
    """A workspace with a volume, and containers to run on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace_id = uuid4()
        self.volumes = DirectoryVolumes(root / "volumes", processes.is_running)
        self.volumes.set_up()
        prepared = self.volumes.prepare(self.workspace_id, "g1")
        self.volume = self.volumes.install(self.workspace_id, "g1", "a1", prepared)

    def containers(self, script: str | None = None, **how: float) -> ProcessContainers:
        """Containers that run a script of Python, or what they run by default."""
        command = None if script is None else [sys.executable, "-I", "-c", script]
        return ProcessContainers(self.root / "containers", self.volumes, command, {"GIVEN": "1"}, **how)

    def start(self, containers: ProcessContainers) -> None:
        """Start it."""
        containers.start(self.workspace_id, self.volume)

    def reported(self, containers: ProcessContainers) -> object:
        """Start it, and wait for what it reports."""
        os.mkfifo(self.volume.home / "report")
        self.start(containers)
        return json.loads((self.volume.home / "report").read_text())

    def is_running(self) -> bool:
        """Whether it is observed to run."""
        return self.containers().observe([self.workspace_id])[self.workspace_id].ready

    def pids(self) -> list[int]:
        """Its processes that live."""
        return [pid for pid in processes._pids() if processes._workspace_of(pid) == self.workspace_id]

    def close(self) -> None:
        """End it, whatever it is."""
        assert processes.end(self.workspace_id, 0, 10)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[_Stage]:
    """A stage whose processes end with the test."""
    opened = _Stage(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


def _is_living(pid: int) -> bool:
    return processes._session_of(pid) is not None


def test_a_container_runs_in_its_home_and_knows_nothing_of_ours(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "of the platform")
    report = stage.reported(stage.containers(REPORT))
    assert isinstance(report, Mapping)
    home = str(stage.volume.home)
    assert report["cwd"] == home
    assert report["session"] == report["pid"]
    assert report["stdin"] == "/dev/null"
    environment = {name: value for name, value in report["environment"].items() if name != "LC_CTYPE"}
    assert environment == {
        "HOME": home,
        "PATH": os.defpath,
        "GIVEN": "1",
        "DPP_CONTAINER": f"ws-{stage.workspace_id}",
    }
    assert len(report["fds"]) <= 5
    log = stage.root / "containers" / "logs" / f"ws-{stage.workspace_id}.log"
    assert log.read_text() == "to the log\n"


def test_a_container_is_started_once_however_many_start_it(stage: _Stage) -> None:
    barrier = threading.Barrier(5)

    def start() -> None:
        containers = stage.containers()
        barrier.wait()
        stage.start(containers)

    threads = [threading.Thread(target=start) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stage.pids()) == 1


def test_a_container_is_started_when_everybody_sees_it(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between exec and the moment at which /proc shows the environment, a process is nobody's."""
    told = processes._workspace_of
    left = 3

    def late(pid: int) -> UUID | None:
        nonlocal left
        found = told(pid)
        left -= found == stage.workspace_id
        return None if left > 0 else found

    monkeypatch.setattr(processes, "_workspace_of", late)
    stage.start(stage.containers())
    assert left == 0
    assert stage.is_running()


def test_a_container_that_ends_unseen_is_not_waited_for(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_workspace_of", lambda _pid: None)
    stage.start(stage.containers("import os; os._exit(1)"))
    assert not stage.is_running()


def test_a_container_outlives_who_started_it_and_is_found_by_others(stage: _Stage) -> None:
    """A platform process killed right after it started a container has recorded nothing, and nothing leaks."""
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
    started = subprocess.run([sys.executable, "-c", script, stage.root, str(stage.workspace_id)], check=False)
    assert started.returncode == -signal.SIGKILL
    assert stage.is_running()
    stage.start(stage.containers())
    assert len(stage.pids()) == 1
    with pytest.raises(OperationFailed, match="VolumeInUse"):
        stage.volumes.delete(stage.workspace_id, "g1")
    stage.containers().stop(stage.workspace_id)
    assert not stage.is_running()


def test_an_ended_container_is_reaped_and_not_running(stage: _Stage) -> None:
    stage.start(stage.containers())
    [pid] = stage.pids()
    stage.containers().stop(stage.workspace_id)
    for thread in threading.enumerate():
        if thread.name == f"reap ws-{stage.workspace_id}":
            thread.join()
    assert not Path(f"/proc/{pid}").exists()
    assert not stage.is_running()


def test_what_ended_and_was_not_reaped_is_not_running(stage: _Stage) -> None:
    environment = {processes.VARIABLE: f"ws-{stage.workspace_id}"}
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""], env=environment)
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert Path(f"/proc/{dead.pid}").exists()
        assert not stage.is_running()
        stage.containers().stop(stage.workspace_id)
    finally:
        dead.wait()


def test_a_container_that_will_not_end_is_killed(stage: _Stage) -> None:
    containers = stage.containers(STUBBORN, grace_seconds=0.1)
    stage.reported(containers)
    [pid] = stage.pids()
    containers.stop(stage.workspace_id)
    assert not _is_living(pid)
    assert not stage.is_running()


def test_what_a_container_started_ends_with_it(stage: _Stage) -> None:
    containers = stage.containers(FAMILY, grace_seconds=5)
    children = stage.reported(containers)
    assert isinstance(children, list)
    pids = {*children, *stage.pids()}
    assert len(pids) >= 5
    containers.stop(stage.workspace_id)
    assert [pid for pid in pids if _is_living(pid)] == []


def test_what_a_container_left_behind_still_counts_as_running(stage: _Stage) -> None:
    """It may write to the volume, which therefore is not deleted."""
    pids = stage.reported(stage.containers(FAMILY))
    assert isinstance(pids, list)
    leader = pids[0]
    os.kill(leader, signal.SIGKILL)
    for thread in threading.enumerate():
        if thread.name == f"reap ws-{stage.workspace_id}":
            thread.join()
    assert not _is_living(leader)
    assert stage.is_running()
    stage.containers().stop(stage.workspace_id)
    assert not stage.is_running()


def test_a_container_that_can_not_be_killed_is_said_to_run_on(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    containers = stage.containers(grace_seconds=0.01)
    stage.start(containers)
    with monkeypatch.context() as patched:
        patched.setattr("dpp.workspaces.providers.local_containers._KILL_SECONDS", 0.01)
        patched.setattr(signal, "pidfd_send_signal", lambda *_: None)
        with pytest.raises(OperationFailed, match="ContainerWontStop") as failed:
            containers.stop(stage.workspace_id)
    assert not failed.value.is_terminal
    assert stage.is_running()


class _Vanishing:
    """Volumes of which one is there when it is first looked for, and then is not, or can't be said to be."""

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
def test_a_container_whose_volume_is_deleted_while_it_starts_is_ended(
    stage: _Stage, then: Exception | None
) -> None:
    volumes = _Vanishing(stage.volume, then)
    containers = ProcessContainers(stage.root / "containers", volumes)  # type: ignore[arg-type]
    with pytest.raises(OperationFailed if then is None else ProviderUnavailable):
        stage.start(containers)
    assert stage.pids() == []


def test_a_command_that_can_not_be_run_is_a_failure_of_the_operation(stage: _Stage) -> None:
    containers = ProcessContainers(stage.root / "containers", stage.volumes, ["/no/such/program"])
    with pytest.raises(OperationFailed, match="ContainerNotStarted: The file system returned ENOENT"):
        stage.start(containers)
    assert not stage.is_running()


def test_one_reading_of_proc_answers_for_a_whole_fleet(
    stage: _Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.start(stage.containers())
    readings = []
    real = processes._pids

    def counted() -> Iterator[int]:
        readings.append(1)
        return real()

    monkeypatch.setattr(processes, "_pids", counted)
    others = [uuid4() for _ in range(500)]
    seen = stage.containers().observe([*others, stage.workspace_id])
    assert [one for one, found in seen.items() if found.ready] == [stage.workspace_id]
    assert len(seen) == 501
    assert len(readings) == 1


def test_stopping_one_container_leaves_the_others(stage: _Stage, tmp_path: Path) -> None:
    other = _Stage(tmp_path / "other")
    try:
        for one in (stage, other):
            one.start(one.containers())
        stage.containers().stop(stage.workspace_id)
        assert not stage.is_running()
        assert other.is_running()
    finally:
        other.close()


def test_a_process_that_lies_about_its_name_is_no_container(stage: _Stage) -> None:
    for name in ("ws-", "ws-nonsense", f"ws-{stage.workspace_id}-home"):
        lying = subprocess.Popen(
            [sys.executable, "-S", "-c", "input()"], env={processes.VARIABLE: name}, stdin=subprocess.PIPE
        )
        try:
            assert not stage.is_running()
        finally:
            lying.communicate(b"\n")
