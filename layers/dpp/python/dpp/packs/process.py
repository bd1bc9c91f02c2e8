"""Runs a pack in a child process that can be killed (RUN-17, D6).

One job a child: nothing of one tenant's run is left for the next. The timebox runs from the moment a ready
child takes its job; when it is over, SIGTERM goes to the child's group and, after a short grace, SIGKILL to
everything the child started.
"""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from dpp.packs.child import Child, ChildCancelledError, ChildGarbledError, ChildGoneError, ChildOverdueError, Wait
from dpp.packs.contract import PACK_RESULT, PackFailure, PackReason, PackRequest, PackResult
from dpp.packs.environment import job_environment
from dpp.packs.runner import Job


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one job; the kernel enforces bytes and files, the parent the seconds."""

    memory_bytes: int = 768 * 1024 * 1024
    """Address space, which is more than what is resident: Python with boto3 maps about 250 MB."""
    file_bytes: int = 16 * 1024 * 1024
    open_files: int = 256
    start_seconds: float = 15.0
    """Time limit for a child to become ready; not part of the timebox, and zero for a warm child."""
    grace_seconds: float = 0.5
    """From SIGTERM to SIGKILL."""
    kill_seconds: float = 1.0
    """Time limit for finding and killing everything that a child started; the kernel needs milliseconds."""


class PackProcess:
    """Hands each job to a fresh child process. One worker's; `close` (or `with`) ends what is warm.

    `environ` is the worker's whole environment: the child sees only what its pack needs of it.
    `executor_module` is another than the shipped one only in tests.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        limits: ProcessLimits | None = None,
        executor_module: str = "dpp.packs.executor",
    ) -> None:
        self._environ = environ
        self._limits = limits or ProcessLimits()
        self._executor_module = executor_module
        self._lock = threading.Lock()
        self._warm: Child | None = None

    def prestart(self) -> None:
        """Start the next child ahead of its job, if none is warm; returns before the child is ready."""
        # A machine that has no room for one now may have when the job comes; `run` then starts its own,
        # and the result that the worker is holding meanwhile is not lost to an exception here.
        with self._lock, suppress(OSError):
            if self._warm is None:
                self._warm = self._start()

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Run one job and return its result; whatever the pack does, this does not raise for it.

        Everything of the job is over within `timebox_sec` + 2 s of its start, which is when a ready child
        takes it: at once if one is warm, else within `start_seconds`. `cancelled` set (the lease
        is lost) kills the child at once: PACK_CANCELLED.
        """
        try:
            child = self._ready_child(cancelled)
        except ChildCancelledError:
            return PackFailure(reason_code=PackReason.PACK_CANCELLED)
        except (ChildGoneError, ChildGarbledError, ChildOverdueError) as error:
            return PackFailure(reason_code=PackReason.PACK_CRASHED, detail=f"did not start: {error}")
        except OSError as error:
            name = type(error).__name__
            return PackFailure(reason_code=PackReason.PACK_CRASHED, detail=f"did not start: {name}")
        try:
            return self._work(child, request, cancelled)
        finally:
            child.end(within_seconds=self._limits.kill_seconds)

    def close(self) -> None:
        """End the warm child, if any. Safe to repeat; a later `run` starts a fresh child."""
        child = self._take_warm()
        if child is not None:
            child.end(within_seconds=self._limits.kill_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> Child:
        return Child.start(
            self._environ,
            executor_module=self._executor_module,
            memory_bytes=self._limits.memory_bytes,
            file_bytes=self._limits.file_bytes,
            open_files=self._limits.open_files,
        )

    def _take_warm(self) -> Child | None:
        with self._lock:
            child, self._warm = self._warm, None
        return child

    def _ready_child(self, cancelled: threading.Event) -> Child:
        """A child that waits for its job: the warm one, or, if that did not survive the wait, a new one."""
        wait = Wait(time.monotonic() + self._limits.start_seconds, cancelled)
        warm = self._take_warm()
        if warm is not None:
            try:
                return self._when_ready(warm, wait)
            except (ChildGoneError, ChildGarbledError):
                pass  # it died while idle, which says nothing about this job
        return self._when_ready(self._start(), wait)

    def _when_ready(self, child: Child, wait: Wait) -> Child:
        try:
            child.await_ready(wait)
        except BaseException:
            child.end(within_seconds=self._limits.kill_seconds)
            raise
        return child

    def _work(self, child: Child, request: PackRequest, cancelled: threading.Event) -> PackResult:
        job = Job(request=request, environ=job_environment(self._environ, request))
        wait = Wait(time.monotonic() + request.timebox_sec, cancelled)
        try:
            child.send(job.model_dump_json().encode(), wait)
            payload = child.answer(wait)
            child.await_silence(Wait(time.monotonic() + self._limits.grace_seconds, cancelled))
            return PACK_RESULT.validate_json(payload)
        except ChildCancelledError:
            return PackFailure(reason_code=PackReason.PACK_CANCELLED)
        except ChildOverdueError:
            child.terminate(grace_seconds=self._limits.grace_seconds)
            detail = f"not done within {request.timebox_sec} s"
            return PackFailure(reason_code=PackReason.PACK_TIMEBOX_EXCEEDED, detail=detail)
        except (ChildGoneError, ChildGarbledError) as error:
            return PackFailure(reason_code=PackReason.PACK_CRASHED, detail=str(error))
        except ValidationError:
            return PackFailure(reason_code=PackReason.PACK_CRASHED, detail="answered no pack result")
