"""Errors of runs over HTTP: their problem documents, and the headers of every error response (RUN-9, RUN-13).

Not in `http`, so that the health function, which uses them too, loads no models of bodies.
"""

from collections.abc import Mapping

from dpp.platform.db.rate_limit import RETRY_AFTER_SECONDS
from dpp.platform.http.problem import ProblemKind
from dpp.runs import errors
from dpp.runs.model import Costs

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    errors.InsufficientBudget: ProblemKind(402, "BUDGET_DRAINED", "The budget doesn't cover the run"),
    errors.RunNotFound: ProblemKind(404, "NOT_FOUND", "There is nothing here"),
    errors.IdempotencyConflict: ProblemKind(
        409, "IDEMPOTENCY_CONFLICT", "The idempotency key stands for another payload"
    ),
    errors.IdempotencyInProgress: ProblemKind(409, "IDEMPOTENCY_IN_PROGRESS", "The first request is still under way"),
    errors.RunExpired: ProblemKind(410, "RUN_EXPIRED", "The run's retention is over"),
    errors.PackNotAvailable: ProblemKind(422, "PACK_NOT_AVAILABLE", "The pack is not available"),
    errors.RateLimited: ProblemKind(429, "RATE_LIMITED", "Too many requests"),
    errors.EnqueueFailed: ProblemKind(503, "QUEUE_ENQUEUE_FAILED", "The run could not be queued"),
    errors.ExecutionDisabled: ProblemKind(503, "EXECUTION_DISABLED", "Execution is disabled"),
}
_RETRY_AFTER_SECONDS: Mapping[type[errors.RunsError], int] = {
    errors.RateLimited: RETRY_AFTER_SECONDS,
    errors.IdempotencyInProgress: 1,
    errors.EnqueueFailed: 1,
    errors.ExecutionDisabled: 60,
}


def error_headers(error: Exception | None) -> dict[str, str]:
    """The headers of an error response: always the cost headers, with zeros for unknown figures (RUN-13)."""
    if not isinstance(error, errors.RunsError):
        return Costs().headers()
    headers = error.costs.headers()
    if error.rate is not None:
        headers |= error.rate.headers()
    if type(error) in _RETRY_AFTER_SECONDS:
        headers["Retry-After"] = str(_RETRY_AFTER_SECONDS[type(error)])
    return headers
