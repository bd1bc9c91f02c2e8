"""The local stack's persistent state: `state.json` in its folder."""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from dpp_cli.errors import StackError
from dpp_cli.local import events
from dpp_cli.local.processes import ProcessIdentity
from dpp_cli.paths import state_dir as default_state_dir

LOCK_NAME = "lock"


class PartRecord(BaseModel):
    """A process of the stack. `port`: 0 where it listens on none."""

    model_config = ConfigDict(frozen=True)

    pid: int
    birth: str
    port: int = 0

    @classmethod
    def of(cls, identity: ProcessIdentity, port: int = 0) -> Self:
        """The record of a started process."""
        return cls(pid=identity.pid, birth=identity.birth, port=port)

    @property
    def identity(self) -> ProcessIdentity:
        """The process, so that a reused pid isn't taken for it."""
        return ProcessIdentity(self.pid, self.birth)


class StackState(BaseModel):
    """The whole of it. `ports` and the data folders outlive `down`; the rest does not."""

    model_config = ConfigDict(frozen=True)

    ports: dict[str, int] = Field(default_factory=dict)
    parts: dict[str, PartRecord] = Field(default_factory=dict)
    database_url: str = ""
    redis_url: str = ""
    aws_endpoint_url: str = ""
    bootstrapped: str = ""  # which LocalStack has the CDK's bucket and roles
    deployed: str = ""  # fingerprint of what was deployed, and where to
    shape: str = ""  # of the deployed template, code aside; see deploy.shape_changed
    outputs: dict[str, str] = Field(default_factory=dict)

    @property
    def api_base_url(self) -> str:
        """The API's base URL. Raises StackError before the first deployment."""
        try:
            api_id, stage = self.outputs["ApiId"], self.outputs["Stage"]
        except KeyError:
            raise StackError("nothing is deployed; run `dpp local up`") from None
        return f"{self.aws_endpoint_url}/_aws/execute-api/{api_id}/{stage}"


def load_state(state_dir: Path | None = None) -> StackState | None:
    """The stack's state; None when there has been none. Whether the parts still run is another question."""
    path = (state_dir or default_state_dir()) / "state.json"
    try:
        return StackState.model_validate_json(path.read_text())
    except FileNotFoundError:
        return None


def running_state(state_dir: Path | None = None) -> StackState:
    """The state of a stack that is up and deployed. Raises StackError."""
    state = load_state(state_dir)
    if state is None or not state.outputs:
        raise StackError("the local stack is not running; start it with `dpp local up`")
    answering = {name: part for name, part in state.parts.items() if part.port}
    dead = [name for name, part in answering.items() if not part.identity.alive()]
    if dead:
        raise StackError(f"{', '.join(dead)} died: run `dpp local up`")
    return state


class StateStore:
    """Changes the state: one change at a time, each written whole before the next (write, then rename)."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._lock = Lock()
        self.state = load_state(state_dir) or StackState()

    def update(self, change: Callable[[StackState], StackState]) -> StackState:
        """Apply `change`, keep it, and return the new state."""
        with self._lock:
            self.state = change(self.state)
            scratch = self.state_dir / "state.json.new"
            scratch.write_text(self.state.model_dump_json(indent=2))
            scratch.replace(self.state_dir / "state.json")
            return self.state

    def set(self, **values: object) -> StackState:
        """Replace fields by name."""
        return self.update(lambda state: state.model_copy(update=values))

    def record(self, name: str, part: PartRecord) -> StackState:
        """Keep a started process and its port, and say so in the events."""
        ports = {name: part.port} if part.port else {}
        state = self.update(
            lambda state: state.model_copy(
                update={"parts": {**state.parts, name: part}, "ports": {**state.ports, **ports}}
            )
        )
        events.emit(self.state_dir, "part_started", part=name, pid=part.pid, port=part.port or None)
        return state

    def end(self, name: str, *, first: signal.Signals = signal.SIGTERM, patience_seconds: float = 10.0) -> bool:
        """End a recorded process, by `first` and in the end by force, and say so; False where none was running."""
        part = self.state.parts.get(name)
        if part is None:
            return False
        alive = part.identity.alive()
        if alive:
            part.identity.end(first, patience_seconds=patience_seconds)
        events.emit(self.state_dir, "part_ended" if alive else "part_found_dead", part=name, pid=part.pid)
        return alive

    def forget(self, name: str) -> None:
        """Drop the record of a process that was ended."""
        self.set(parts={other: part for other, part in self.state.parts.items() if other != name})


@contextmanager
def exclusive(state_dir: Path) -> Iterator[None]:
    """Hold the stack for one command: two that start or stop it at once would each half undo the other.

    Raises StackError when another one has it. The kernel lets go when the command dies.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / LOCK_NAME).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "?"
            raise StackError(f"another `dpp local` command (pid {holder}) is at work; wait for it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
