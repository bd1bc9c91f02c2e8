"""When a failed step is tried again, and when it is dead: one policy for outbox and consumer (004 §7; AUTH-8)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

LADDER_SECONDS = (10, 60, 600)
"""10 s, 1 min, 10 min (004 §7); from there on always the last."""

DEFAULT_MAX_RETRIES = 5


class FailureKind(Enum):
    """Whose fault a failure is.

    An outage says nothing of the message: to let it die of one would lose every event of a half-hour's outage.
    """

    MESSAGE = auto()
    PERMANENT = auto()
    OUTAGE = auto()


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again; `retry_count` includes the failure just met, and is what the row keeps."""

    retry_count: int
    delay_seconds: int
    next_retry_at: datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """Never again by itself."""

    retry_count: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries so often. A pure function of the count, the fault and the time that it is given."""

    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        if not 0 <= self.max_retries <= 1_000:
            raise ValueError(f"max_retries is from 0 to 1000, not {self.max_retries}")

    def after_failure(
        self, retry_count: int, now: datetime, fault: FailureKind = FailureKind.MESSAGE
    ) -> Retry | Dead:
        """What becomes of a step that failed `retry_count` times before and failed again at `now`."""
        count = retry_count + 1
        if fault is FailureKind.PERMANENT:
            return Dead(count)
        if fault is FailureKind.OUTAGE:
            count = min(count, self.max_retries)
        elif count > self.max_retries:
            return Dead(count)
        delay = LADDER_SECONDS[min(max(count, 1), len(LADDER_SECONDS)) - 1]
        return Retry(count, delay, now + timedelta(seconds=delay))
