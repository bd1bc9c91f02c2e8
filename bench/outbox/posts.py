"""The reports that bench/outbox posts, the same on both sides."""

import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from bench.support.processes import Share
from dpp.auth_errors.model import AuthErrorReport

_FAILURES = 50


def report_of(request_id: str) -> AuthErrorReport:
    """A report of one of fifty failures, with a stack trace of 40 frames."""
    failure = zlib.crc32(request_id.encode()) % _FAILURES
    frames = "\n".join(f"\tat com.example.auth.Step{frame}.check(Step{frame}.java:{failure})" for frame in range(40))
    return AuthErrorReport(
        request_id=request_id,
        occurred_at=datetime.now(UTC),
        http_status=401,
        exception_class=f"com.example.auth.Refused{failure}",
        exception_message="token refused",
        stacktrace=f"com.example.auth.Refused{failure}: token refused\n{frames}",
        service="checkout",
    )


def post_share(share: Share, post: Callable[[str], UUID]) -> None:
    """Post a share, and log each error's id with the time at which its post was due: a late post counts as late."""
    lines: list[str] = []
    share.do(lambda request_id, due: lines.append(f"{post(request_id)} {due}\n"))
    with share.log.with_suffix(".posted").open("a", encoding="utf-8") as file:
        file.write("".join(lines))
