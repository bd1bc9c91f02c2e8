"""One pack process as its worker controls it: start, job, answer, end (D6)."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dpp.packs import frames
from dpp.packs.environment import process_environment
from dpp.packs.process_tree import end_tree
from dpp.packs.runner import READY, STATUS, RunnerArguments

_TICK_SECONDS = 0.05
"""Interval at which a wait checks for cancellation and for the child's end."""


class ChildGoneError(Exception):
    """The child ended or closed its pipe without an answer."""


class ChildGarbledError(Exception):
    """The child wrote something other than one answer."""


class ChildOverdueError(Exception):
    """The wait's deadline passed."""


class ChildCancelledError(Exception):
    """The worker has lost the run."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait until `deadline` (`time.monotonic()`) that `cancelled` ends at once."""

    deadline: float
    cancelled: threading.Event

    def tick(self) -> float:
        """Seconds to sleep at most. Raises ChildCancelledError or ChildOverdueError when it is over."""
        if self.cancelled.is_set():
            raise ChildCancelledError
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ChildOverdueError("too late")
        return min(left, _TICK_SECONDS)


class Child:
    """A child process with a pipe each way and a scratch directory of its own."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        request_fd: int,
        answer_fd: int,
        status_fd: int,
        scratch: str,
        mark: str,
    ) -> None:
        self._process = process
        self._request_fd = request_fd
        self._answer_fd = answer_fd
        self._status_fd = status_fd
        self._scratch = scratch
        self._mark = mark
        self._received = bytearray()
        self._ended: str | None = None
        self._open_fds = [answer_fd, status_fd]
        os.set_blocking(request_fd, False)
        os.set_blocking(answer_fd, False)

    @classmethod
    def start(
        cls, environ: Mapping[str, str], *, executor_module: str, memory_bytes: int, file_bytes: int, open_files: int
    ) -> Self:
        """Start the interpreter; returns at once, long before the child is ready."""
        mark = uuid.uuid4().hex
        scratch = tempfile.mkdtemp(prefix="dpp-pack-")
        child_request_fd, request_fd = os.pipe()
        answer_fd, child_answer_fd = os.pipe()
        status_fd, child_status_fd = os.pipe()
        theirs = (child_request_fd, child_answer_fd, child_status_fd)
        arguments = RunnerArguments(
            request_fd=child_request_fd,
            answer_fd=child_answer_fd,
            status_fd=child_status_fd,
            executor_module=executor_module,
            memory_bytes=memory_bytes,
            file_bytes=file_bytes,
            open_files=open_files,
        )
        try:
            process = _popen(arguments, process_environment(environ, scratch=scratch, mark=mark), theirs)
        except BaseException:
            _close(request_fd, answer_fd, status_fd)
            _remove(scratch)
            raise
        finally:
            _close(*theirs)
        return cls(process, request_fd=request_fd, answer_fd=answer_fd, status_fd=status_fd, scratch=scratch, mark=mark)

    def await_ready(self, wait: Wait) -> None:
        """Wait until the child has finished its imports."""
        if self._next_frame(wait) != READY:
            raise ChildGarbledError("answered before it was asked")

    def send(self, payload: bytes, wait: Wait) -> None:
        """Send the job."""
        rest = memoryview(frames.encode(payload))
        while rest:
            if not _writable(self._request_fd, wait.tick()):
                continue
            try:
                rest = rest[os.write(self._request_fd, rest) :]
            except BrokenPipeError:
                raise ChildGoneError("closed its pipe before its job") from None

    def answer(self, wait: Wait) -> bytes:
        """The payload of the one answer."""
        return self._next_frame(wait)

    def await_silence(self, wait: Wait) -> None:
        """After the answer, wait for the job's process to end and check that it wrote nothing else.

        Raises ChildGarbledError for a second answer (neither can be trusted) and for a process that does not end, and
        ChildGoneError for one that ended with an error.
        """
        try:
            while self._receive(wait):
                pass
        except ChildOverdueError:
            raise ChildGarbledError("did not end after its answer") from None
        if self._received:
            raise ChildGarbledError("answered more than once")
        if self._ended != _ended_with(0):
            raise ChildGoneError(self._how_it_ended())

    def terminate(self, *, grace_seconds: float) -> None:
        """Send SIGTERM to the process group and wait until the child ends or the grace period is over."""
        try:
            os.killpg(self._process.pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        wait = Wait(time.monotonic() + grace_seconds, threading.Event())
        try:
            while self._receive(wait):
                self._received.clear()  # an answer after the timebox does not count
        except ChildOverdueError:
            return

    def end(self, *, within_seconds: float) -> None:
        """Kill the child and all it started, wait for it, and remove what it wrote."""
        end_tree(self._process.pid, self._mark, within_seconds=within_seconds)
        self._process.wait()
        _close(self._request_fd, self._answer_fd, self._status_fd)
        _remove(self._scratch)

    def _next_frame(self, wait: Wait) -> bytes:
        while True:
            try:
                payload = frames.take(self._received, max_bytes=frames.MAX_ANSWER_BYTES)
            except frames.BrokenFrameError as error:
                raise ChildGarbledError(f"answered {error}") from None
            if payload is not None:
                return payload
            if not self._receive(wait):
                raise ChildGoneError(self._how_it_ended())

    def _receive(self, wait: Wait) -> bool:
        """Read from the pipes, waiting up to one tick; return False once no more data can arrive."""
        ended_before = self._ended is not None
        ready = _readable(self._open_fds, 0 if ended_before else wait.tick())
        if self._status_fd in ready:
            # Written after the process ended, so its answer is already in the other pipe.
            self._ended = _read_status(self._status_fd)
            self._open_fds.remove(self._status_fd)
        chunk = b""
        if self._answer_fd in ready:
            chunk = os.read(self._answer_fd, 65_536)
            if not chunk:
                self._open_fds.remove(self._answer_fd)
        self._received += chunk
        return bool(chunk) or not ended_before

    def _how_it_ended(self) -> str:
        return f"{self._ended} without an answer"


def _ended_with(status: int) -> str:
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def _read_status(fd: int) -> str:
    report = os.read(fd, STATUS.size)
    return _ended_with(STATUS.unpack(report)[0]) if len(report) == STATUS.size else "was killed"


def _popen(
    arguments: RunnerArguments, environment: Mapping[str, str], pass_fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our interpreter, our module
        [sys.executable, "-P", "-s", "-m", "dpp.packs.runner", arguments.model_dump_json()],
        env=environment,
        cwd=environment["TMPDIR"],
        stdin=subprocess.DEVNULL,
        # What a pack prints may be a client's words, so it is not even captured (RUN-31).
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=pass_fds,
        start_new_session=True,
    )


def _readable(fds: Sequence[int], seconds: float) -> set[int]:
    # poll, not select, which can't watch a descriptor beyond 1023.
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _event in poll.poll(seconds * 1000)}


def _writable(fd: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(seconds * 1000))


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)


def _remove(scratch: str) -> None:
    """Remove a scratch directory, even one whose permissions the pack has taken away."""
    shutil.rmtree(scratch, ignore_errors=True)
    if not Path(scratch).exists():
        return
    Path(scratch).chmod(0o700)
    for folder, names, _ in os.walk(scratch):
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():  # chmod would follow it out of the scratch directory
                path.chmod(0o700)
    shutil.rmtree(scratch, ignore_errors=True)
