"""The reaper's rules (000 §4): what is stale, how many may be ended at once, and what is said of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from dpp.tickets.model import Backlog, RequestType

REASON: Final = "AUTO_CLEANUP_STALE_IN_PROGRESS"

DEFAULT_THRESHOLD_SECONDS = 86_400
MIN_THRESHOLD_SECONDS = 300
"""Longer than any processor works on a ticket: below it the reaper would end what somebody is at."""
MAX_THRESHOLD_SECONDS = 31_536_000

DEFAULT_MAX_CLEAN = 50
MAX_MAX_CLEAN = 1_000
"""As many as one transaction ends within the 5 s that a statement may take, with room."""

SHARE_COUNTS_FROM = 20
"""Below so many stale tickets their share says nothing: one of one is all of them."""

_FOLDER = "reports/ops/tickets/reaper"
LATEST_KEY = f"{_FOLDER}/latest/reaper_latest.json"
_SNAPSHOTS = f"{_FOLDER}/snapshots"


@dataclass(frozen=True, slots=True)
class Breaker:
    """From when on stale tickets are so many that something else is wrong (a processor that is down, a clock).

    `max_stale`: more than this many. `max_share`: more than this share of all in progress, 0 to 1.
    """

    max_stale: int
    max_share: float

    def trips(self, backlog: Backlog, confirmed_stale: int) -> bool:
        """Whether nothing may be ended; `confirmed_stale` is how many an operator has said may be."""
        if backlog.stale <= confirmed_stale:
            return False
        many = backlog.stale >= SHARE_COUNTS_FROM and backlog.stale > self.max_share * backlog.in_progress
        return many or backlog.stale > self.max_stale


@dataclass(frozen=True, slots=True)
class ReaperRules:
    """What the reaper goes by where its caller says nothing else."""

    threshold_seconds: int
    max_clean: int
    breaker: Breaker
    excluded_types: Sequence[RequestType] = ()

    def with_overrides(self, threshold_seconds: int | None = None, max_clean: int | None = None) -> Self:
        """The rules of a run that was asked for: these in all that it doesn't say."""
        return replace(
            self,
            threshold_seconds=threshold_seconds or self.threshold_seconds,
            max_clean=max_clean or self.max_clean,
        )


def result_message(threshold_seconds: int) -> str:
    """The locked message, with the threshold that was really used (000 §4-B)."""
    return f"{REASON}: exceeded {threshold_seconds}s threshold"


def snapshot_key(asof: datetime, nth_of_its_second: int) -> str:
    """Where the snapshot of a report lies (000 §6), by the report's own time.

    A second one of the same local second (two runs in it, or the hour that a clock change repeats) has its number
    in its name, so that none writes over another.
    """
    suffix = "" if nth_of_its_second == 1 else f"_{nth_of_its_second}"
    return f"{_SNAPSHOTS}/reaper_{asof:%Y%m%d_%H%M%S}{suffix}.json"


def snapshot_name(key: str) -> str:
    """The last part of a snapshot's key."""
    return key.rpartition("/")[2]


def snapshot_key_of(name: str) -> str:
    """The key of a snapshot with this name."""
    return f"{_SNAPSHOTS}/{name}"
