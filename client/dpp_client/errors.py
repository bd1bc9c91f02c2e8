"""Errors of the client, one class for each case that a caller may want to handle.

The class docstring is the default message. `temporary` ones are worth the same call again, a submit with the same
idempotency key; the client has done so until its time was up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dpp_client.models import Run


@dataclass(frozen=True, slots=True)
class Fault:
    """A place in the request (a JSON Pointer) and what it needs."""

    pointer: str
    detail: str


class DppError(Exception):
    """The API refused the request."""

    temporary: bool = False
    idempotency_key: str | None = None
    """Of a submit: send it again with this key, and there is one run at most."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        status: int | None = None,
        reason_code: str | None = None,
        title: str | None = None,
        trace_id: str | None = None,
        run_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.detail = detail or (type(self).__doc__ or "").partition("\n")[0]
        super().__init__(self.detail)
        self.status = status
        self.reason_code = reason_code
        self.title = title
        self.trace_id = trace_id
        self.run_id = run_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        """`402 BUDGET_DRAINED: …`, with the trace id that the platform's operators find it by."""
        code = " ".join(str(part) for part in (self.status, self.reason_code) if part is not None)
        trace = f" (trace {self.trace_id})" if self.trace_id else ""
        return f"{code}: {self.detail}{trace}" if code else f"{self.detail}{trace}"


class Unauthorized(DppError):
    """The API key is missing, unknown, wrong or revoked."""


class InsufficientBudget(DppError):
    """The budget that is left is below the maximum price; `budget_remaining_usd` says what is left."""

    budget_remaining_usd: Decimal | None = None


class RunNotFound(DppError):
    """There is no such run of this tenant."""


class RunExpired(DppError):
    """The run is past its retention, and its result is gone."""


class Conflict(DppError):
    """The idempotency key stands for another payload."""


class InProgress(Conflict):
    """The first request with this idempotency key is still under way."""

    temporary = True


class ValidationFailed(DppError):
    """The request doesn't fit its schema; `fields` names each place and what it needs."""

    fields: tuple[Fault, ...] = ()


class PackNotAvailable(DppError):
    """This deployment doesn't have the pack."""


class RateLimited(DppError):
    """The tenant's requests of this minute are used up; `retry_after` says for how long."""

    temporary = True


class Unavailable(DppError):
    """The platform can't answer right now."""

    temporary = True


class ExecutionDisabled(Unavailable):
    """An operator has disabled execution; nothing is charged."""


class NotReached(Unavailable):
    """There was no answer: whether the request arrived is not known."""


class UnexpectedAnswer(DppError):
    """The answer is none of this API's. Is the URL right?"""


class WaitTimedOut(DppError):
    """The run was not over in time. It goes on: wait again. `run` is how it was last seen."""

    run: Run | None = None


class NoResult(DppError):
    """The run has no result, or none yet."""


class RunFailed(NoResult):
    """The run failed; `reason_code` says why."""


class ResultUnavailable(DppError):
    """The storage refused the result's URL, and a fresh one too."""


class ResultMismatch(DppError):
    """The fetched result does not have the SHA-256 that the API returned."""


_BY_REASON: Mapping[str, type[DppError]] = {
    "AUTH_INVALID": Unauthorized,
    "BUDGET_DRAINED": InsufficientBudget,
    "EXECUTION_DISABLED": ExecutionDisabled,
    "IDEMPOTENCY_CONFLICT": Conflict,
    "IDEMPOTENCY_IN_PROGRESS": InProgress,
    "NOT_FOUND": RunNotFound,
    "PACK_NOT_AVAILABLE": PackNotAvailable,
    "RATE_LIMITED": RateLimited,
    "RUN_EXPIRED": RunExpired,
    "VALIDATION_FAILED": ValidationFailed,
}
# For answers that carry no problem document, such as those of a proxy on the way. No 404 of those is a run's.
_BY_STATUS: Mapping[int, type[DppError]] = {401: Unauthorized, 429: RateLimited}


def error_of(
    status: int, problem: Mapping[str, Any], *, retry_after: float | None, budget_remaining_usd: Decimal | None
) -> DppError:
    """The error that an answer is. `problem`: its problem document, empty where it has none."""
    reason = _text(problem, "reason_code")
    kind = _BY_REASON.get(reason or "") or _BY_STATUS.get(status) or _by_class(status, reason)
    error = kind(
        _text(problem, "detail") or _text(problem, "title"),
        status=status,
        reason_code=reason,
        title=_text(problem, "title"),
        trace_id=_text(problem, "trace_id"),
        run_id=_text(problem, "run_id"),
        retry_after=retry_after,
    )
    if isinstance(error, ValidationFailed):
        error.fields = _faults(problem.get("errors"))
    if isinstance(error, InsufficientBudget):
        error.budget_remaining_usd = budget_remaining_usd
    return error


def _by_class(status: int, reason: str | None) -> type[DppError]:
    if status >= 500:
        return Unavailable
    return DppError if reason else UnexpectedAnswer


def _text(problem: Mapping[str, Any], name: str) -> str | None:
    value = problem.get(name)
    return value if isinstance(value, str) and value else None


def _faults(errors: object) -> tuple[Fault, ...]:
    found = errors if isinstance(errors, list) else []
    return tuple(
        Fault(_text(one, "pointer") or "", _text(one, "detail") or "") for one in found if isinstance(one, dict)
    )
