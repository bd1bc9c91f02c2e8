"""Ends a process and everything it started, wherever that went (D6).

A process group is not enough: a grandchild may have called setsid, and its parent may be gone. What
belongs to a pack is found in /proc by any of: its session or group, its chain of parents (the pack process
is a subreaper, so orphans below it stay below it), or the mark in the environment it was started with,
which outlives even the pack process.
"""

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK_VARIABLE = "DPP_PACK_PROCESS"
"""Environment variable whose value names the pack process; everything forked below it has it too."""

_PROC = Path("/proc")
_RESCAN_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    state: str
    parent: int
    group: int
    session: int


def end_tree(root: int, mark: str, *, within_seconds: float) -> None:
    """SIGKILL `root` and all that belongs to it; returns once none is left, or after `within_seconds`.

    `root` must be a child not yet waited for, so that its number can't have passed to another process.
    """
    # Stopped, not yet killed: as long as it lives, what it started can't slip to another parent.
    _send(root, signal.SIGSTOP)
    end_members(root, mark, within_seconds=within_seconds)
    _send(root, signal.SIGKILL)


def end_members(root: int, mark: str, *, within_seconds: float) -> None:
    """SIGKILL all that belongs to `root`, but not `root`."""
    deadline = time.monotonic() + within_seconds
    while members := _members(root, mark) - {root}:
        for pid in members:
            _send(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        time.sleep(_RESCAN_SECONDS)


def _members(root: int, mark: str) -> set[int]:
    """The living processes that belong to `root`, from one look at /proc."""
    processes = {process.pid: process for process in _snapshot()}
    marked = f"{MARK_VARIABLE}={mark}".encode()
    return {
        process.pid
        for process in processes.values()
        if process.state != "Z"
        and (
            root in (process.session, process.group)
            or _descends(process, root, processes)
            or _has_mark(process.pid, marked)
        )
    }


def _descends(process: _Process, root: int, processes: dict[int, _Process]) -> bool:
    seen: set[int] = set()
    at: _Process | None = process
    while at is not None and at.pid not in seen:
        if at.pid == root:
            return True
        seen.add(at.pid)
        at = processes.get(at.parent)
    return False


def _snapshot() -> Iterator[_Process]:
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
        except OSError:
            continue  # ended between the listing and the look
        # The name stands in parentheses and may hold anything, parentheses and blanks too.
        state, parent, group, session = stat.rpartition(")")[2].split()[:4]
        yield _Process(int(entry.name), state, int(parent), int(group), int(session))


def _has_mark(pid: int, marked: bytes) -> bool:
    try:
        return marked in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False  # ended meanwhile, or another user's, and then not ours


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # already over, which is what was wanted
