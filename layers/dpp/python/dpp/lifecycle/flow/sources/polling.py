"""What the polls of all sources share: where one stands, where its events go, and how a reply is judged."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from dpp.lifecycle.flow.errors import SourceUnavailable
from dpp.lifecycle.flow.model import NewEvent, Source
from dpp.lifecycle.flow.ports import OUTCOME_HEADER, OutsideOutcome, OutsideReply

OVERLAP = timedelta(hours=1)
"""How much of what was asked for is asked for again: our clocks may differ, and a source's index may lag."""
POLL_SECONDS = 60
_MAX_WAIT_SECONDS = 86_400
_LIMITED_SECONDS = 60
"""GitHub: a secondary limit that names no time is waited for at least a minute."""


class RateLimited(SourceUnavailable):
    """The source asks for a pause; `retry_after_seconds` says how long."""


class ReplyTooLarge(SourceUnavailable):
    """The reply had more bytes than can be handed on."""


@dataclass(frozen=True, slots=True)
class PollState:
    """Where the polls of a source stand, as one begins."""

    etag: str | None
    complete_until: datetime | None
    started_at: datetime
    horizon_days: int

    @property
    def since(self) -> datetime:
        """From when on to ask: since the last whole poll with the overlap, and never beyond the horizon."""
        horizon = self.started_at - timedelta(days=self.horizon_days)
        return horizon if self.complete_until is None else max(horizon, self.complete_until - OVERLAP)


@dataclass(frozen=True, slots=True)
class PollResult:
    """A poll that has taken in everything. `wait_seconds`: how long from its beginning until the next one may be."""

    etag: str | None
    not_modified: bool
    wait_seconds: int


class EventSink(Protocol):
    """Where a poll's events go, and what counts them. Raises PostgresUnavailable."""

    def is_known(self, event_id: str) -> bool:
        """Whether an event was taken in already, so that nothing needs to be asked about it."""

    def accept(self, event: NewEvent) -> None:
        """Take an event in, once."""

    def skip(self, item_id: object) -> None:
        """Leave out what can't be read."""


def demand(reply: OutsideReply, source: Source, now: datetime) -> OutsideReply:
    """The reply, where it is a 200. Raises RateLimited, ReplyTooLarge, SourceUnavailable; none quotes a body."""
    if reply.status == 200:
        return reply
    told = reply.headers.get(OUTCOME_HEADER)
    if told == OutsideOutcome.REPLY_TOO_LARGE:
        raise ReplyTooLarge(f"{source}_REPLY_TOO_LARGE")
    if told == OutsideOutcome.NOT_CONFIGURED:
        raise SourceUnavailable(f"{source}_NOT_CONFIGURED")
    seconds = _asked_to_wait(reply, now)
    if reply.status == 429 or (reply.status == 403 and (seconds is not None or _says_limit(reply))):
        raise RateLimited(f"{source}_RATE_LIMITED", _LIMITED_SECONDS if seconds is None else seconds)
    raise SourceUnavailable(f"{source}_{reply.status}", seconds)


def json_of(reply: OutsideReply, source: Source) -> Any:
    """The reply's body. Raises SourceUnavailable for one that was cut.

    Not the strict parser: one odd string must not hold back a whole page, and texts are cleaned where they are kept.
    """
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        raise SourceUnavailable(f"{source}_NO_JSON") from None


def wait_seconds(headers: Mapping[str, str], now: datetime) -> int:
    """How long until the next poll may be: X-Poll-Interval, or the reset where no request is left."""
    interval = headers.get("x-poll-interval", "")
    asked = int(interval) if interval.isascii() and interval.isdigit() and len(interval) < 9 else POLL_SECONDS
    left_out = _until_reset(headers, now) or 0
    return min(max(asked, left_out, 1), _MAX_WAIT_SECONDS)


def _asked_to_wait(reply: OutsideReply, now: datetime) -> int | None:
    """Retry-After in seconds or as a date (RFC 9110, 10.2.3), else the reset of a limit that is used up."""
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(int(value[:9]), _MAX_WAIT_SECONDS)
    if value:
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            return _until_reset(reply.headers, now)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        return _bounded((until - now).total_seconds())
    return _until_reset(reply.headers, now)


def _until_reset(headers: Mapping[str, str], now: datetime) -> int | None:
    """X-RateLimit-Reset is in seconds since 1970, and says something where Remaining is 0."""
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") != "0" or not (reset.isascii() and reset.isdigit()):
        return None
    return _bounded(int(reset[:12]) - now.timestamp())


def _bounded(seconds: float) -> int:
    return min(max(int(seconds) + 1, 1), _MAX_WAIT_SECONDS)


def _says_limit(reply: OutsideReply) -> bool:
    """A secondary limit that comes without a header says so in its message."""
    return "rate limit" in reply.body[:2_000].lower()
