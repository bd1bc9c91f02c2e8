"""The processes of local containers, as /proc tells of them: whose they are stands in their environment (proc(5)).

Nothing is recorded, so nothing can be recorded wrongly: a process that was started just before its starter died is
found like any other, and so is whatever it started. Not found is who ended and waits to be reaped.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import UUID

VARIABLE = "DPP_CONTAINER"
_PREFIX = f"{VARIABLE}=ws-".encode()
_PROC = Path("/proc")


def container_name(workspace_id: UUID) -> str:
    """How a workspace's container is called (003 §6)."""
    return f"ws-{workspace_id}"


def running() -> frozenset[UUID]:
    """The workspaces whose container has a process that lives and that this user may see; read in some ms."""
    return frozenset(one for pid in _pids() if (one := _workspace_of(pid)) is not None)


def is_running(workspace_id: UUID) -> bool:
    """Whether any process of this container lives."""
    return workspace_id in running()


def wait_until_told(pid: int, workspace_id: UUID, has_ended: Callable[[], bool]) -> None:
    """Wait until /proc tells whose a process is that was just started, or it has ended.

    The kernel closes what exec closes, by which a starter knows that it went well, before it shows the environment:
    in between a process is nobody's, and whoever looks would start another.
    """
    while _workspace_of(pid) != workspace_id and not has_ended():
        time.sleep(0.001)


def end(workspace_id: UUID, grace_seconds: float, kill_seconds: float) -> bool:
    """Ask all of a container's processes to end, then make them; False where some live on even so.

    With them ends what is in one of their sessions, whatever it made of its environment.
    """
    sessions: set[int] = set()
    return _signalled(workspace_id, sessions, signal.SIGTERM, grace_seconds) or _signalled(
        workspace_id, sessions, signal.SIGKILL, kill_seconds
    )


def _signalled(workspace_id: UUID, sessions: set[int], how: signal.Signals, seconds: float) -> bool:
    """Signal them and wait until they ended, and those that they started meanwhile; False where the time is over."""
    until = time.monotonic() + seconds
    while pids := _with_sessions(workspace_id, sessions):
        with ExitStack() as opened:
            descriptors = {}
            for pid in pids:
                with suppress(ProcessLookupError):
                    descriptors[pid] = os.pidfd_open(pid)
                    opened.callback(os.close, descriptors[pid])
            # Once more: by now no number can have gone to another process without this telling.
            asked = [descriptors[pid] for pid in _with_sessions(workspace_id, sessions) & descriptors.keys()]
            for descriptor in asked:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, how)
            if not _ended(asked, until):
                return False
    return True


def _ended(descriptors: Iterable[int], until: float) -> bool:
    waiting, left = select.poll(), 0
    for descriptor in descriptors:
        waiting.register(descriptor, select.POLLIN)
        left += 1
    while left:
        ended = waiting.poll(max(0.0, until - time.monotonic()) * 1000)
        if not ended:
            return False
        for descriptor, _ in ended:
            waiting.unregister(descriptor)
            left -= 1
    return True


def _with_sessions(workspace_id: UUID, sessions: set[int]) -> set[int]:
    """The container's living processes, with all in the sessions that they are or were in, which are noted."""
    session_of = {pid: session for pid in _pids() if (session := _session_of(pid)) is not None}
    pids = {pid for pid in session_of if _workspace_of(pid) == workspace_id}
    sessions |= {session_of[pid] for pid in pids} - {os.getsid(0)}
    return pids | {pid for pid, session in session_of.items() if session in sessions}


def _session_of(pid: int) -> int | None:
    """A process's session; None where it ended (proc_pid_stat(5))."""
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[3])


def _pids() -> Iterator[int]:
    with os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdigit():
                yield int(entry.name)


def _workspace_of(pid: int) -> UUID | None:
    try:
        environment = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:  # gone, or another user's
        return None
    if _PREFIX not in environment:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(_PREFIX):
            with suppress(ValueError):
                return UUID(variable.removeprefix(_PREFIX).decode("ascii", "replace"))
    return None
