"""The sentinel (poller): polls each source that is due, accepts new events and wakes the king (dispatcher) (LIFE-1,
LIFE-7).

It may crash at any point. Accepted events stay accepted. The state of a source's polls is written last, after all of a
poll was accepted, so that the next tick polls the rest again.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum

from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.errors import SourceUnavailable
from dpp.lifecycle.flow.intake import accept, event_rows, source_rows
from dpp.lifecycle.flow.intake.accept import IntakeOutcome
from dpp.lifecycle.flow.model import Arrival, NewEvent, Source
from dpp.lifecycle.flow.ports import Outside, Role, Wake
from dpp.lifecycle.flow.sources import github, jira
from dpp.lifecycle.flow.sources.polling import POLL_SECONDS, EventSink, PollResult, PollState
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable

_LOG = logging.getLogger("dpp.lifecycle.flow.intake.poller")
MAX_PAUSE_SECONDS = 3_600
POLL_TIME_SECONDS = 10.0
"""The maximum duration of one source's poll; the next poll, a minute later, continues."""


class OutOfTime(SourceUnavailable):
    """The poll has used up its time; the next tick continues."""


@dataclass(frozen=True, slots=True)
class PollerEffects:
    """Connections and settings that the poller uses. A source without a login or a filter is not polled."""

    database: Database
    outside: Outside
    wake: Wake
    github_login: str | None
    jira_jql: str | None
    horizon_days: int
    monotonic: Callable[[], float] = time.monotonic


class PollOutcome(StrEnum):
    """The result of polling a source."""

    NOT_DUE = "NOT_DUE"
    NOT_MODIFIED = "NOT_MODIFIED"
    TAKEN_IN = "TAKEN_IN"
    FAILED = "FAILED"


@dataclass(slots=True)
class SourceReport:
    """The result of a source's poll. `skipped`: items that can't be read. `failures`: failed polls in a row."""

    source: Source
    outcome: PollOutcome = PollOutcome.NOT_DUE
    accepted: int = 0
    duplicates: int = 0
    too_old: int = 0
    skipped: int = 0
    failures: int = 0
    next_poll_seconds: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PollerReport:
    """The result of one tick."""

    sources: tuple[SourceReport, ...]

    @property
    def accepted(self) -> int:
        """The number of new events."""
        return sum(one.accepted for one in self.sources)

    def as_dict(self) -> dict[str, object]:
        """The report for the log and the function's result; it quotes no text of a source."""
        return {"accepted": self.accepted, "sources": [asdict(one) for one in self.sources]}


@dataclass(slots=True)
class _Sink:
    """Accepts events in Postgres and counts them; ends a poll that has used up its time."""

    effects: PollerEffects
    report: SourceReport
    now: datetime | None
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = self.effects.monotonic() + POLL_TIME_SECONDS

    def is_known(self, event_id: str) -> bool:
        if self.effects.monotonic() > self.deadline:
            raise OutOfTime(f"{self.report.source}_OUT_OF_TIME", POLL_SECONDS)
        known = self.effects.database.using(event_rows.known, event_id)
        self.report.duplicates += known
        return known

    def accept(self, event: NewEvent) -> None:
        taken = self.effects.database.using(
            accept.accept_event, event, Arrival.POLL, self.effects.horizon_days, self.now
        )
        match taken:
            case IntakeOutcome.ACCEPTED:
                self.report.accepted += 1
            case IntakeOutcome.DUPLICATE:
                self.report.duplicates += 1
            case IntakeOutcome.TOO_OLD:
                self.report.too_old += 1

    def skip(self, item_id: object) -> None:
        self.report.skipped += 1
        extra = {"source": self.report.source, "item_id": str(item_id)[:64]}
        _LOG.warning("an item can't be read and is left out", extra=extra)


type _Poll = Callable[[PollState, EventSink], PollResult]


def poll_sources(effects: PollerEffects, now: datetime | None = None) -> PollerReport:
    """One tick. Raises PostgresUnavailable; the next tick starts again.

    A source that fails is paused and does not affect the other.
    """
    effects.database.using(heartbeat.record, Role.SENTINEL, now)
    reports: list[SourceReport] = []
    try:
        for source, poll in _polls(effects).items():
            report = SourceReport(source)
            reports.append(report)
            _turn(effects, report, poll, now)
    finally:  # accepted events are dispatched even if the rest failed
        if any(one.accepted for one in reports):
            effects.wake(Role.KING)
    return PollerReport(tuple(reports))


def _polls(effects: PollerEffects) -> Mapping[Source, _Poll]:
    login, jql = effects.github_login, effects.jira_jql
    polls: dict[Source, _Poll] = {}
    if login is not None:
        polls[Source.GITHUB] = lambda state, sink: github.poll(effects.outside, login, state, sink)
    if jql is not None:
        polls[Source.JIRA] = lambda state, sink: jira.poll(effects.outside, jql, state, sink)
    return polls


def _turn(effects: PollerEffects, report: SourceReport, poll: _Poll, now: datetime | None) -> None:
    with effects.database.connection() as connection:
        row = source_rows.find(connection, report.source, now)
        started_at = source_rows.clock(connection, now)
    report.failures = row.failures
    if not row.due:
        return
    state = PollState(row.etag, row.complete_until, started_at, effects.horizon_days)
    try:
        done = poll(state, _Sink(effects, report, now))
    except SourceUnavailable as error:
        asked = error.retry_after_seconds
        _note_failure(effects, report, str(error), started_at, asked or pause_seconds(row.failures + 1))
        return
    except DependencyUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - a defect in one source must not stop the other; it is recorded
        error_text = f"unexpected: {type(error).__name__}"
        _note_failure(effects, report, error_text, started_at, pause_seconds(row.failures + 1))
        return
    effects.database.using(source_rows.polled, report.source, done.etag, started_at, done.wait_seconds)
    report.outcome = PollOutcome.NOT_MODIFIED if done.not_modified else PollOutcome.TAKEN_IN
    report.failures, report.next_poll_seconds = 0, done.wait_seconds


def pause_seconds(failures: int) -> int:
    """The pause after `failures` failed polls in a row, if the source asked for none."""
    return min(POLL_SECONDS << min(failures - 1, 16), MAX_PAUSE_SECONDS)


def _note_failure(
    effects: PollerEffects, report: SourceReport, error: str, started_at: datetime, wait_seconds: int
) -> None:
    effects.database.using(source_rows.failed, report.source, error, started_at, wait_seconds)
    report.failures += 1
    report.outcome, report.error, report.next_poll_seconds = PollOutcome.FAILED, error, wait_seconds
    _LOG.error("a source can't be polled", extra={"source": report.source, "error": error})
