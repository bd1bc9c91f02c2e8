"""Containers as processes of this machine (WS-9): for development and tests, without isolation."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.ports import Observation, Volume, Volumes
from dpp.workspaces.providers import processes
from dpp.workspaces.providers.disk import failing_as, locked

_WAITING = (sys.executable, "-I", "-S", str(Path(__file__).with_name("local_container.py")))
_GRACE_SECONDS = 10.0
_KILL_SECONDS = 5.0

_RUNNING = Observation(ready=True, reason="ContainerRunning", message="Container is running")
_NOT_FOUND = Observation(ready=False, reason="ContainerNotFound", message="There is no container")


class ProcessContainers:
    """The port Containers. `command`: the program of each container, started in its home; None: one that only waits.

    `environment`: its variables besides HOME, PATH and DPP_CONTAINER; it inherits no others.
    `grace_seconds`: between SIGTERM and SIGKILL.
    """

    infra = "process"

    def __init__(
        self,
        root: Path,
        volumes: Volumes,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        self._root = root
        self._volumes = volumes
        self._command = tuple(command or _WAITING)
        self._environment = dict(environment or {})
        self._grace_seconds = grace_seconds

    def observe(self, workspace_ids: Sequence[UUID]) -> Mapping[UUID, Observation]:
        """One observation for each id; ready if the container has a live process."""
        running = processes.running()
        return {one: _RUNNING if one in running else _NOT_FOUND for one in workspace_ids}

    def start(self, workspace_id: UUID, volume: Volume) -> None:
        """Start a process in the volume's home.

        This checks for the volume again after the start, and a deletion checks for the container again after unlinking:
        one of two concurrent calls detects the other. Raises OperationFailed `VolumeGone` and `ContainerNotStarted`.
        """
        with self._locked(workspace_id):
            if processes.is_running(workspace_id):
                return
            self._check(workspace_id, volume)
            self._run(workspace_id, volume)
            try:
                self._check(workspace_id, volume)
            except BaseException:
                self._end(workspace_id)
                raise

    def stop(self, workspace_id: UUID) -> None:
        """End all processes of the container. Raises OperationFailed `ContainerWontStop`."""
        with self._locked(workspace_id):
            self._end(workspace_id)

    def _check(self, workspace_id: UUID, volume: Volume) -> None:
        existing = self._volumes.find(workspace_id)
        if existing is None or existing.generation != volume.generation:
            raise OperationFailed(
                "VolumeGone", "The workspace no longer has the volume that the container was to run on."
            )

    def _end(self, workspace_id: UUID) -> None:
        if not processes.end(workspace_id, self._grace_seconds, _KILL_SECONDS):
            raise OperationFailed("ContainerWontStop", "The container still runs after SIGKILL.")

    def _run(self, workspace_id: UUID, volume: Volume) -> None:
        name = processes.container_name(workspace_id)
        environment = {"HOME": str(volume.home), "PATH": os.defpath, **self._environment}
        with failing_as("ContainerNotStarted"):
            log = self._folder("logs") / f"{name}.log"
            with log.open("ab") as output:
                process = subprocess.Popen(  # noqa: S603 - the command is the operator's
                    self._command,
                    cwd=volume.home,
                    env={**environment, processes.VARIABLE: name},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        processes.wait_until_visible(process.pid, workspace_id, lambda: process.poll() is not None)
        # Only this process can reap it, and may run for long.
        threading.Thread(target=process.wait, name=f"reap {name}", daemon=True).start()

    @contextmanager
    def _locked(self, workspace_id: UUID) -> Iterator[None]:
        with ExitStack() as held:
            with failing_as("ContainerUnknown"):
                held.enter_context(locked(self._folder("locks") / processes.container_name(workspace_id)))
            yield

    def _folder(self, name: str) -> Path:
        folder = self._root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder
