"""A clock that moves only when its test moves it."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(slots=True)
class MovedClock:
    """`start` plus `seconds`. Each call moves it by `step_seconds`, so that no two calls need return the same."""

    start: datetime
    seconds: float = 0.0
    step_seconds: float = 0.0

    @property
    def now(self) -> datetime:
        """The current time."""
        return self.start + timedelta(seconds=self.seconds)

    def __call__(self) -> datetime:
        """Move by one step and return the current time."""
        self.seconds += self.step_seconds
        return self.now

    def monotonic(self) -> float:
        """Seconds since the start, in place of `time.monotonic`."""
        return self.seconds

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
