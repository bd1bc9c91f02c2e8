"""The pack process: started ahead of its job, does exactly one (D6).

`python -P -s -m dpp.packs.runner` with `RunnerArguments` as JSON. It limits itself, imports the executor and
forks: the child reads one job and writes one answer; the parent, the guardian, runs no pack. As long as the
guardian lives, everything the job started is below it and can be found, even when the job itself crashed;
and when the worker dies, the guardian ends the job, even one stuck in C.

Standard streams go nowhere, and of an exception only the class's name leaves the process, because either
could hold a client's words (RUN-31).
"""

import ctypes
import errno
import importlib
import os
import resource
import select
import shutil
import signal
import struct
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import NoReturn

from pydantic import BaseModel, ConfigDict

from dpp.packs import frames
from dpp.packs.contract import PACK_RESULT, PackFailure, PackReason, PackRequest, PackResult
from dpp.packs.process_limits import lower_limit
from dpp.packs.process_tree import MARK_VARIABLE, end_members

READY = b""
"""The payload of the frame that says: imports done, waiting for a job."""

STATUS = struct.Struct(">i")
"""The guardian's report of how the job's process ended: an exit status, or the negated signal number."""

_PR_SET_CHILD_SUBREAPER = 36
_NO_ROOM = frozenset({errno.EFBIG, errno.ENOSPC, errno.EDQUOT})


class RunnerArguments(BaseModel):
    """Arguments of the process; only tests set another `executor_module`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    request_fd: int
    answer_fd: int
    status_fd: int
    executor_module: str
    memory_bytes: int
    file_bytes: int
    open_files: int


class Job(BaseModel):
    """The one frame that goes to the process: the request, and the variables its pack may see."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    request: PackRequest
    environ: dict[str, str]


class _TerminatedError(BaseException):
    """The worker asked to end; not an Exception, so that a pack's own handlers let it pass."""


def main(arguments: RunnerArguments) -> NoReturn:
    """Run the life of the process. The guardian is ended by the worker, or ends when the worker is gone."""
    for fd in (arguments.request_fd, arguments.answer_fd, arguments.status_fd):
        os.set_inheritable(fd, False)
    _limit(arguments)
    _adopt_orphans()
    executor = importlib.import_module(arguments.executor_module)
    executor.warm()
    PACK_RESULT.rebuild()  # else the first to use it builds it, within its run's time
    pack = os.fork()
    if pack == 0:
        os.close(arguments.status_fd)
        _do_one_job(executor, arguments)
    os.close(arguments.answer_fd)
    _guard(pack, arguments)


def _do_one_job(executor: ModuleType, arguments: RunnerArguments) -> NoReturn:
    signal.signal(signal.SIGTERM, _terminate)
    try:
        frames.write_blocking(arguments.answer_fd, READY)
        frame = frames.read_blocking(arguments.request_fd, max_bytes=frames.MAX_JOB_BYTES)
        if frame is not None:
            frames.write_blocking(arguments.answer_fd, _answer(executor, frame))
    except (_TerminatedError, BrokenPipeError):
        pass  # the worker wants no answer any more
    finally:
        # Not sys.exit: nothing of the pack, no exit handler and no thread, may hold up the end.
        os._exit(0)


def _guard(pack: int, arguments: RunnerArguments) -> NoReturn:
    """Report how the job's process ended; stay until killed, or until the worker is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(wake_read, select.POLLIN)
    poll.register(arguments.request_fd, 0)  # nothing but the hang-up: the job is the other process's to read
    while True:
        if (status := _reap(pack)) is not None:
            os.write(arguments.status_fd, STATUS.pack(os.waitstatus_to_exitcode(status)))
        for fd, _event in poll.poll():
            if fd == arguments.request_fd:
                end_members(os.getpid(), os.environ[MARK_VARIABLE], within_seconds=1)
                shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
                os._exit(0)
            os.read(wake_read, 4096)


def _reap(pack: int) -> int | None:
    """Wait for every child that has ended, orphans too; the wait status of `pack` if it was among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == pack:
            found = status


def _answer(executor: ModuleType, frame: bytes) -> bytes:
    job = Job.model_validate_json(frame)
    os.environ.update(job.environ)
    result = _guarded(lambda: executor.execute(job.request, job.environ))
    try:
        payload = PACK_RESULT.dump_json(result)
    except (MemoryError, ValueError) as error:  # pydantic's serialisation errors are ValueErrors
        return PACK_RESULT.dump_json(_failure(error))
    if len(payload) > frames.MAX_ANSWER_BYTES:
        detail = f"{len(payload)} bytes, at most {frames.MAX_ANSWER_BYTES}"
        return PACK_RESULT.dump_json(PackFailure(reason_code=PackReason.PACK_OUTPUT_TOO_LARGE, detail=detail))
    return payload


def _guarded(execute: Callable[[], PackResult]) -> PackResult:
    try:
        return execute()
    except _TerminatedError:
        raise
    except BaseException as error:  # noqa: BLE001 - the outermost edge: whatever a pack raises, it failed
        return _failure(error)


def _failure(error: BaseException) -> PackFailure:
    match error:
        case MemoryError():
            return PackFailure(reason_code=PackReason.PACK_MEMORY_EXCEEDED, detail="MemoryError")
        case OSError(errno=number) if number in _NO_ROOM:
            detail = errno.errorcode[number]  # a file beyond its limit, or the scratch space is full
            return PackFailure(reason_code=PackReason.PACK_DISK_EXCEEDED, detail=detail)
        case _:
            return PackFailure(reason_code=PackReason.PACK_FAILED, detail=type(error).__name__[:100])


def _limit(arguments: RunnerArguments) -> None:
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_AS, arguments.memory_bytes)
    lower_limit(resource.RLIMIT_FSIZE, arguments.file_bytes)
    lower_limit(resource.RLIMIT_NOFILE, arguments.open_files)


def _adopt_orphans() -> None:
    """Become the parent of orphaned grandchildren, so that the worker finds them below this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _TerminatedError


if __name__ == "__main__":
    main(RunnerArguments.model_validate_json(sys.argv[1]))
