"""Posts of bench/outbox.py: the same errors, at the same pace, to ours and to the peer."""

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from uuid import UUID

from dpp.auth_errors.model import AuthErrorReport

TENANT = "t_bench"
_FAILURES = 50
_READY_SECONDS = 60


def report_of(request_id: str) -> AuthErrorReport:
    """One of fifty failures, with a stack trace of 40 frames."""
    failure = zlib.crc32(request_id.encode()) % _FAILURES
    frames = "\n".join(
        f"\tat com.example.auth.Step{frame}.check(Step{frame}.java:{failure})" for frame in range(40)
    )
    return AuthErrorReport(
        request_id=request_id,
        occurred_at=datetime.now(UTC),
        http_status=401,
        exception_class=f"com.example.auth.Refused{failure}",
        exception_message="token refused",
        stacktrace=f"com.example.auth.Refused{failure}: token refused\n{frames}",
        service="checkout",
    )


@dataclass(frozen=True, slots=True)
class Posts:
    """So many posts of one process, begun when all posters are ready; `per_second` None: as fast as they go.

    In `log` a line a post: the error's id, and when it was due, so that a post which comes late is late in the figures.
    """

    prefix: str
    count: int
    ready: Barrier
    per_second: float | None
    log: Path

    def make(self, post: Callable[[str], UUID]) -> None:
        """All of them."""
        lines = []
        self.ready.wait(_READY_SECONDS)
        begin_at = time.time()
        for number in range(self.count):
            due = begin_at + (number / self.per_second if self.per_second else 0)
            time.sleep(max(0.0, due - time.time()))
            lines.append(f"{post(f'{self.prefix}-{number}')} {due}\n")
        with self.log.open("a", encoding="utf-8") as file:
            file.write("".join(lines))
