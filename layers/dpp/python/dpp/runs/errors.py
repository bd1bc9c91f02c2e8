"""What can go wrong with a run as a client sees it; the docstring is the default message.

`dpp/runs/api/problems.py` maps each class to its status, reason code and title.
"""

from dpp.platform.db.rate_limit import RateState
from dpp.runs.endings import Ending
from dpp.runs.model import Costs


class RunsError(Exception):
    """A run can't be submitted or read."""

    def __init__(
        self,
        detail: str | None = None,
        *,
        run_id: str | None = None,
        costs: Costs | None = None,
        rate: RateState | None = None,
    ) -> None:
        super().__init__(detail or (type(self).__doc__ or "").partition("\n")[0])
        self.run_id = run_id
        self.costs = costs or Costs()
        self.rate = rate


class RateLimited(RunsError):
    """The tenant's requests of this minute are used up."""


class BudgetDrained(RunsError):
    """The budget that is left is below max_cost_usd."""


class IdempotencyConflict(RunsError):
    """This Idempotency-Key was used with another payload."""


class IdempotencyInProgress(RunsError):
    """A request with this Idempotency-Key is under way; send it again in a second."""


class EnqueueFailed(RunsError):
    """The run could not be queued; its reservation goes back to the budget. Send it again."""

    ending: Ending | None = None
    """How the run ended, where it could be ended at once."""


class ExecutionDisabled(RunsError):
    """Execution of this pack is disabled for now, and nothing is charged; send it again later."""


class PackNotAvailable(RunsError):
    """This pack is not available in this deployment."""


class RunNotFound(RunsError):
    """No such run."""


class RunExpired(RunsError):
    """The run's retention of 30 days is over, and its result is gone."""


class SwitchedOff(Exception):
    """Execution of the pack is disabled; the insert wrote nothing (TIX-1)."""


class DuplicateKey(Exception):
    """The tenant's idempotency key belongs to a living run; the insert wrote nothing (D4)."""
