"""Errors of runs over HTTP: their problem documents, and the headers of every error response (RUN-9, RUN-13).

Not in `http`, so that the health function, which uses them too, loads no models of bodies.
"""

from collections.abc import Mapping

from dpp.platform.db.rate_limit import RETRY_AFTER_SECONDS
from dpp.platform.http.problem import ProblemKind
from dpp.runs.errors import (
    EnqueueFailed,
    ExecutionDisabled,
    IdempotencyConflict,
    IdempotencyInProgress,
    InsufficientBudget,
    PackNotAvailable,
    RateLimited,
    RunExpired,
    RunNotFound,
    RunsError,
)
from dpp.runs.model import Costs

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    InsufficientBudget: ProblemKind(402, "BUDGET_DRAINED", "The budget doesn't cover the run"),
    RunNotFound: ProblemKind(404, "NOT_FOUND", "There is nothing here"),
    IdempotencyConflict: ProblemKind(409, "IDEMPOTENCY_CONFLICT", "The idempotency key stands for another payload"),
    IdempotencyInProgress: ProblemKind(409, "IDEMPOTENCY_IN_PROGRESS", "The first request is still under way"),
    RunExpired: ProblemKind(410, "RUN_EXPIRED", "The run's retention is over"),
    PackNotAvailable: ProblemKind(422, "PACK_NOT_AVAILABLE", "The pack is not available"),
    RateLimited: ProblemKind(429, "RATE_LIMITED", "Too many requests"),
    EnqueueFailed: ProblemKind(503, "QUEUE_ENQUEUE_FAILED", "The run could not be queued"),
    ExecutionDisabled: ProblemKind(503, "EXECUTION_DISABLED", "Execution is disabled"),
}
_RETRY_AFTER_SECONDS: Mapping[type[RunsError], int] = {
    RateLimited: RETRY_AFTER_SECONDS,
    IdempotencyInProgress: 1,
    EnqueueFailed: 1,
    ExecutionDisabled: 60,
}


def error_headers(error: Exception | None) -> dict[str, str]:
    """The headers of an error response: always the cost headers, with zeros for unknown figures (RUN-13)."""
    if not isinstance(error, RunsError):
        return Costs().headers()
    headers = error.costs.headers()
    if error.rate is not None:
        headers |= error.rate.headers()
    if type(error) in _RETRY_AFTER_SECONDS:
        headers["Retry-After"] = str(_RETRY_AFTER_SECONDS[type(error)])
    return headers
