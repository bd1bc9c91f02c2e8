"""The reaper's rules (000 §4): the stale threshold, the limit of one run, the breaker, and names of results. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Self

from dpp.tickets.model import Backlog, RequestType

REASON: Final = "AUTO_CLEANUP_STALE_IN_PROGRESS"

DEFAULT_THRESHOLD_SECONDS = 86_400
MIN_THRESHOLD_SECONDS = 300
"""Longer than any processor works on a ticket. A smaller threshold would end tickets that are being processed."""
MAX_THRESHOLD_SECONDS = 31_536_000

DEFAULT_MAX_CLEAN = 50
MAX_MAX_CLEAN = 1_000
"""One transaction ends this many well within the statement timeout of 5 s."""

SHARE_COUNTS_FROM = 20
"""The share is not checked for fewer stale tickets than this: one of one would be 100 %."""

_FOLDER = "reports/ops/tickets/reaper"
LATEST_KEY = f"{_FOLDER}/latest/reaper_latest.json"
_SNAPSHOTS = f"{_FOLDER}/snapshots"


@dataclass(frozen=True, slots=True)
class Breaker:
    """Limits above which stale tickets point to another fault, such as a processor that is down or a wrong clock.

    `max_stale` is a count; `max_share` is a share of all tickets in progress, from 0 to 1.
    """

    max_stale: int
    max_share: float

    def trips(self, backlog: Backlog, confirmed_stale: int) -> bool:
        """True if no ticket may be ended. An operator allows up to `confirmed_stale` stale tickets."""
        if backlog.stale <= confirmed_stale:
            return False
        many = backlog.stale >= SHARE_COUNTS_FROM and backlog.stale > self.max_share * backlog.in_progress
        return many or backlog.stale > self.max_stale


@dataclass(frozen=True, slots=True)
class ReaperRules:
    """The reaper's rules, unless its caller overrides them."""

    threshold_seconds: int
    max_clean: int
    breaker: Breaker
    excluded_types: Sequence[RequestType] = ()

    def with_overrides(self, threshold_seconds: int | None = None, max_clean: int | None = None) -> Self:
        """These rules with the values that are given."""
        return replace(
            self, threshold_seconds=threshold_seconds or self.threshold_seconds, max_clean=max_clean or self.max_clean
        )


def result_message(threshold_seconds: int) -> str:
    """The fixed message, with the threshold that was used (000 §4-B)."""
    return f"{REASON}: exceeded {threshold_seconds}s threshold"


def snapshot_key(asof: datetime, nth_of_its_second: int) -> str:
    """The key of a report's snapshot (000 §6), from the report's time.

    Two snapshots can have the same local second: two runs in it, or the hour that a clock change repeats. The second
    one has its number in its name, so that it doesn't overwrite the first.
    """
    suffix = "" if nth_of_its_second == 1 else f"_{nth_of_its_second}"
    return f"{_SNAPSHOTS}/reaper_{asof:%Y%m%d_%H%M%S}{suffix}.json"


def snapshot_name(key: str) -> str:
    return key.rpartition("/")[2]


def snapshot_key_of(name: str) -> str:
    return f"{_SNAPSHOTS}/{name}"
