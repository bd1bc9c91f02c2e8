"""The processes of local containers, found in /proc by a variable in their environment (proc(5)).

There are no records that could be wrong: a process whose starter died right after starting it is found like any other,
and so are its children. Zombies are not found.
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
    """The name of a workspace's container (003 §6)."""
    return f"ws-{workspace_id}"


def running() -> frozenset[UUID]:
    """The workspaces whose container has a live process of this user; takes some ms."""
    return frozenset(one for pid in _pids() if (one := _workspace_of(pid)) is not None)


def is_running(workspace_id: UUID) -> bool:
    """True if the container has a live process."""
    return workspace_id in running()


def wait_until_visible(pid: int, workspace_id: UUID, has_ended: Callable[[], bool]) -> None:
    """Wait until /proc shows the environment of a process that was just started, or the process has ended.

    On exec the kernel closes descriptors, by which Popen detects success, before it shows the environment. In between,
    the process would not be found, and a second one started.
    """
    while _workspace_of(pid) != workspace_id and not has_ended():
        time.sleep(0.001)


def end(workspace_id: UUID, grace_seconds: float, kill_seconds: float) -> bool:
    """End all processes of a container, by SIGTERM and then SIGKILL; False if some still run.

    Includes the processes in their sessions, even those that changed their environment.
    """
    sessions: set[int] = set()
    return _signalled(workspace_id, sessions, signal.SIGTERM, grace_seconds) or _signalled(
        workspace_id, sessions, signal.SIGKILL, kill_seconds
    )


def _signalled(workspace_id: UUID, sessions: set[int], how: signal.Signals, seconds: float) -> bool:
    """Signal the processes, and children started meanwhile, and wait until they end; False after a timeout."""
    until = time.monotonic() + seconds
    while pids := _with_sessions(workspace_id, sessions):
        with ExitStack() as opened:
            descriptors = {}
            for pid in pids:
                with suppress(ProcessLookupError):
                    descriptors[pid] = os.pidfd_open(pid)
                    opened.callback(os.close, descriptors[pid])
            # Again: with the descriptors open, a reused process id would be noticed.
            signalled = [descriptors[pid] for pid in _with_sessions(workspace_id, sessions) & descriptors.keys()]
            for descriptor in signalled:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, how)
            if not _ended(signalled, until):
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
    """The live processes of the container and of its present and former sessions, which are added to `sessions`."""
    session_of = {pid: session for pid in _pids() if (session := _session_of(pid)) is not None}
    pids = {pid for pid in session_of if _workspace_of(pid) == workspace_id}
    sessions |= {session_of[pid] for pid in pids} - {os.getsid(0)}
    return pids | {pid for pid, session in session_of.items() if session in sessions}


def _session_of(pid: int) -> int | None:
    """The session of a process; None if it has ended (proc_pid_stat(5))."""
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
    except OSError:  # ended, or of another user
        return None
    if _PREFIX not in environment:
        return None
    for variable in environment.split(b"\0"):
        if variable.startswith(_PREFIX):
            with suppress(ValueError):
                return UUID(variable.removeprefix(_PREFIX).decode("ascii", "replace"))
    return None
