"""The retry policy of publisher and consumer (004 §7; AUTH-8)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

LADDER_SECONDS = (10, 60, 600)
"""The delays of retries: 10 s, 1 min, 10 min (004 §7); the last one repeats."""

DEFAULT_MAX_RETRIES = 5


class FailureKind(Enum):
    """The cause of a failure. An outage never makes a message dead: half an hour of it would lose every event."""

    MESSAGE = auto()
    PERMANENT = auto()
    OUTAGE = auto()


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry at `next_retry_at`. `retry_count` includes the new failure; the row stores it."""

    retry_count: int
    delay_seconds: int
    next_retry_at: datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """No more retries."""

    retry_count: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Up to `max_retries` retries. Pure."""

    max_retries: int = DEFAULT_MAX_RETRIES

    def __post_init__(self) -> None:
        if not 0 <= self.max_retries <= 1_000:
            raise ValueError(f"max_retries must be from 0 to 1000, not {self.max_retries}")

    def after_failure(self, retry_count: int, now: datetime, kind: FailureKind = FailureKind.MESSAGE) -> Retry | Dead:
        """The next step after a failure at `now` that follows `retry_count` earlier ones."""
        count = retry_count + 1
        if kind is FailureKind.PERMANENT:
            return Dead(count)
        if kind is FailureKind.OUTAGE:
            count = min(count, self.max_retries)
        elif count > self.max_retries:
            return Dead(count)
        delay = LADDER_SECONDS[min(max(count, 1), len(LADDER_SECONDS)) - 1]
        return Retry(count, delay, now + timedelta(seconds=delay))
