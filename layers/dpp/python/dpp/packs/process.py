"""Runs a pack in a child process that can be killed (RUN-17, D6)."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dpp.packs.contract import PackRequest, PackResult


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one job may use; the kernel enforces the bytes, the parent the seconds."""

    memory_bytes: int = 768 * 1024 * 1024
    file_bytes: int = 16 * 1024 * 1024
    open_files: int = 256
    start_seconds: float = 15.0
    grace_seconds: float = 0.5


class PackProcess:
    """Hands each job to a fresh child process. One worker's; `close` (or `with`) ends what is warm.

    `environ` is the worker's whole environment: the child sees only what its pack needs of it.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        limits: ProcessLimits | None = None,
        executor_module: str = "dpp.packs.executor",
    ) -> None:
        raise NotImplementedError

    def prestart(self) -> None:
        """Start the next child ahead of its job, if none is warm; returns at once."""
        raise NotImplementedError

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """Run one job; never raises for what a pack does, and returns within `timebox_sec` + 2 s.

        `cancelled` set (the lease is lost) kills the child at once: PACK_CANCELLED.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End the warm child, if any. Safe to repeat; a later `run` starts a fresh child."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
