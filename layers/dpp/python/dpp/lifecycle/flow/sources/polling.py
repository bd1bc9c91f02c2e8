"""The common parts of polls: their state, the sink of events, and the interpretation of replies."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from dpp.lifecycle.flow.errors import SourceUnavailable
from dpp.lifecycle.flow.model import NewEvent, Source
from dpp.lifecycle.flow.ports import OUTCOME_HEADER, OutsideOutcome, OutsideReply
from dpp.platform.http.retry_after import retry_after_seconds

OVERLAP = timedelta(hours=1)
"""The overlap of two polls: clocks may differ, and the index of a source may lag."""
POLL_SECONDS = 60
_MAX_WAIT_SECONDS = 86_400
_LIMITED_SECONDS = 60
"""GitHub: a secondary limit without a time requires a pause of at least a minute."""


class RateLimited(SourceUnavailable):
    """The source asks for a pause of `retry_after_seconds`."""


class ReplyTooLarge(SourceUnavailable):
    """The reply has more bytes than can be returned."""


@dataclass(frozen=True, slots=True)
class PollState:
    """The state of a source's polls at the start of a poll."""

    etag: str | None
    complete_until: datetime | None
    started_at: datetime
    horizon_days: int

    @property
    def since(self) -> datetime:
        """The start of the interval to poll: the last complete poll with the overlap, at most as old as the horizon."""
        horizon = self.started_at - timedelta(days=self.horizon_days)
        return horizon if self.complete_until is None else max(horizon, self.complete_until - OVERLAP)


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of a complete poll. `wait_seconds`: from its start to the next poll."""

    etag: str | None
    not_modified: bool
    wait_seconds: int


class EventSink(Protocol):
    """Accepts and counts the events of a poll. Raises PostgresUnavailable."""

    def is_known(self, event_id: str) -> bool:
        """True if the event was accepted before, so that its content need not be fetched."""

    def accept(self, event: NewEvent) -> None:
        """Accept an event once."""

    def skip(self, item_id: object) -> None:
        """Count an item that can't be read."""


def require_ok(reply: OutsideReply, source: Source, now: datetime) -> OutsideReply:
    """The reply if its status is 200. Raises RateLimited, ReplyTooLarge, SourceUnavailable; none quotes a body."""
    if reply.status == 200:
        return reply
    outcome = reply.headers.get(OUTCOME_HEADER)
    if outcome == OutsideOutcome.REPLY_TOO_LARGE:
        raise ReplyTooLarge(f"{source}_REPLY_TOO_LARGE")
    if outcome == OutsideOutcome.NOT_CONFIGURED:
        raise SourceUnavailable(f"{source}_NOT_CONFIGURED")
    seconds = _asked_to_wait(reply, now)
    if reply.status == 429 or (reply.status == 403 and (seconds is not None or _says_limit(reply))):
        raise RateLimited(f"{source}_RATE_LIMITED", _LIMITED_SECONDS if seconds is None else seconds)
    raise SourceUnavailable(f"{source}_{reply.status}", seconds)


def json_of(reply: OutsideReply, source: Source) -> Any:
    """Parse the reply's body. Raises SourceUnavailable if it is truncated.

    The strict parser is not used: one odd string must not fail a whole page, and texts are cleaned before they are
    stored.
    """
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise SourceUnavailable(f"{source}_NO_JSON") from None


def wait_seconds(headers: Mapping[str, str], now: datetime) -> int:
    """Seconds until the next poll: X-Poll-Interval, or the reset if no request is left."""
    interval = headers.get("x-poll-interval", "")
    asked = int(interval) if interval.isascii() and interval.isdigit() and len(interval) < 9 else POLL_SECONDS
    left_out = _until_reset(headers, now) or 0
    return min(max(asked, left_out, 1), _MAX_WAIT_SECONDS)


def _asked_to_wait(reply: OutsideReply, now: datetime) -> int | None:
    """Retry-After in seconds or as a date (RFC 9110, 10.2.3), else the reset of a limit that is used up."""
    pause = retry_after_seconds(reply.headers.get("retry-after", ""), now)
    return _until_reset(reply.headers, now) if pause is None else min(max(math.ceil(pause), 1), _MAX_WAIT_SECONDS)


def _until_reset(headers: Mapping[str, str], now: datetime) -> int | None:
    """X-RateLimit-Reset is in seconds since 1970, and applies if Remaining is 0."""
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") != "0" or not (reset.isascii() and reset.isdigit()):
        return None
    return _bounded(int(reset[:12]) - now.timestamp())


def _bounded(seconds: float) -> int:
    return min(max(int(seconds) + 1, 1), _MAX_WAIT_SECONDS)


def _says_limit(reply: OutsideReply) -> bool:
    """A secondary limit without a header says so in its message."""
    return "rate limit" in reply.body[:2_000].lower()
