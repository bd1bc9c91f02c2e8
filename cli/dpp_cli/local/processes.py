"""Processes that outlive the command that started them: started in a session of their own, known again by
their birth, ended with everything they started.

A pid alone proves nothing (the kernel gives it to somebody else later), so a process is kept as pid plus
birth: boot id and start tick from `/proc`. Linux only; elsewhere use `compose.yaml`.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

MARK = "DPP_LOCAL_STATE"
"""Environment variable that every process of a local stack carries (its value: the state folder)."""

_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that can't be mistaken for a later one with the same pid."""

    pid: int
    birth: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The identity of a running process; None if there is none (a zombie counts as none)."""
        try:
            # The command name is in parentheses and may hold spaces, so fields count from the last one.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        state, start_tick = fields[0], fields[19]
        if state in {"Z", "X"}:
            return None
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return cls(pid=pid, birth=f"{boot}:{start_tick}")

    def alive(self) -> bool:
        """True while this very process runs."""
        return ProcessIdentity.of(self.pid) == self

    def end(self, first: signal.Signals = signal.SIGTERM, *, patience_seconds: float = 10.0) -> None:
        """Ask the process with `first`, wait, then kill its whole group. Does nothing to a stranger."""
        if not self.alive():
            return
        _send(self.pid, first)
        if not self._gone_within(patience_seconds):
            _send(self.pid, signal.SIGKILL)
            self._gone_within(5.0)
        _send_group(self.pid, signal.SIGKILL)

    def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.alive():
            _reap(self.pid)
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


def spawn(
    command: Sequence[str],
    *,
    log_path: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    uid: int | None = None,
    dies_by: signal.Signals | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command` in a session of its own, so that neither Ctrl-C nor our exit ends it.

    Output is appended to `log_path`; input is closed; `uid` (as root only) is taken as group too. With `dies_by`
    our exit ends it all the same, by that signal, however we exit: what tests start must not outlive them.
    """
    with log_path.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            start_new_session=True,
            user=uid,
            group=uid,
            extra_groups=None if uid is None else [],
            preexec_fn=None if dies_by is None else partial(_die_with_parent, dies_by),  # noqa: PLW1509
        )


def _die_with_parent(by: signal.Signals) -> None:
    """In the child: have the kernel send `by` when the thread that started us is gone (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by.value)


def marked(state_dir: Path) -> Iterator[ProcessIdentity]:
    """Return all running processes with this stack's mark, whatever their parent is now.

    Finds children (Lambda environments) that survived a killed part. The process that runs this
    command and its ancestors (a shell, `timeout`) may carry the mark too; they are excluded.
    """
    wanted, own = f"{MARK}={state_dir}".encode(), _own_line()
    for folder in _PROC.iterdir():
        if not folder.name.isdigit() or int(folder.name) in own:
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # gone meanwhile, or somebody else's
            continue
        if wanted in variables and (found := ProcessIdentity.of(int(folder.name))):
            yield found


def _own_line() -> set[int]:
    """This process, its parent, and so on up."""
    pid, line = os.getpid(), set[int]()
    while pid > 0 and pid not in line:
        line.add(pid)
        try:
            pid = int((_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # gone meanwhile, or not to be seen from this container
            break
    return line


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _send_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _reap(pid: int) -> None:
    """Collect the exit status if it is our child; otherwise it would remain a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
