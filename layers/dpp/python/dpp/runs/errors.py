"""Errors of runs, as a client sees them; the docstring of a class is its default message.

`dpp/runs/api/problems.py` maps each class to its HTTP status, reason code and title.
"""

from dpp.platform.db.rate_limit import RateState
from dpp.runs.endings import Ending
from dpp.runs.model import Costs


class RunsError(Exception):
    """The run can't be submitted or read."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        run_id: str | None = None,
        costs: Costs | None = None,
        rate: RateState | None = None,
        ending: Ending | None = None,
    ) -> None:
        """`ending`: how the run ended, if this request ended it."""
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.run_id = run_id
        self.costs = costs or Costs()
        self.rate = rate
        self.ending = ending


class RateLimited(RunsError):
    """The tenant has used all requests of this minute."""


class InsufficientBudget(RunsError):
    """The remaining budget is below max_cost_usd."""


class IdempotencyConflict(RunsError):
    """This Idempotency-Key was used with another payload."""


class IdempotencyInProgress(RunsError):
    """A request with this Idempotency-Key is under way; send it again in a second."""


class EnqueueFailed(RunsError):
    """The run could not be queued, and its reservation was refunded. Send the request again."""


class ExecutionDisabled(RunsError):
    """Execution of this pack is disabled at the moment, and nothing was charged; send the request again later."""


class PackNotAvailable(RunsError):
    """This pack is not available in this deployment."""


class RunNotFound(RunsError):
    """No such run."""


class RunExpired(RunsError):
    """The run's retention of 30 days is over, and its result was deleted."""


class SwitchedOff(Exception):
    """Execution of the pack is disabled; the insert wrote nothing (TIX-1)."""


class DuplicateKey(Exception):
    """The tenant's idempotency key belongs to a live run; the insert wrote nothing (D4)."""
