"""One run of the reaper (TIX-1 … TIX-5): end stale tickets, write the report in the same transaction, publish it.

A lease allows one run at a time. A crash before the commit changes nothing. After a crash behind it, the next run
publishes the copies in S3 (`dpp.tickets.reports`); it can start when the lease expires, three minutes after its start.
Until then other callers get ReaperRunning.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db import exclusive
from dpp.platform.db.exclusive import Lease, LeaseOver, LeaseTaken
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.tickets import reports, stop, store
from dpp.tickets.errors import ReaperOvertaken, ReaperRunning
from dpp.tickets.model import REAPER, Backlog, CleanedTicket
from dpp.tickets.report import CleanedItem, Decision, ReaperReport
from dpp.tickets.reports import StoredReport
from dpp.tickets.staleness import ReaperRules

_LOG = logging.getLogger("dpp.tickets.reap")
LEASE_SECONDS = 180
"""Longer than the timeout of every function that runs the reaper (`cdk/dpp_cdk/settings/timings.py`)."""


@dataclass(frozen=True, slots=True)
class ReapEffects:
    """Connections and clients that a run uses, and the time zone of its report (TIX-7)."""

    database: Database
    storage: ObjectStore
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class ReapRequest:
    """A request to run the reaper. The breaker doesn't trip for up to `confirmed_stale` stale tickets."""

    actor: str
    rules: ReaperRules
    confirmed_stale: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Reaped:
    """The result of a run. `snapshot_key` is None for a dry run, which stores no report."""

    report: ReaperReport
    backlog: Backlog
    breaker_tripped: bool
    snapshot_key: str | None = None
    published: bool = False


def reap(request: ReapRequest, effects: ReapEffects, now: datetime | None = None) -> Reaped:
    """Run the reaper. Raises ReaperRunning, ReaperOvertaken, EmergencyStopSet and DependencyUnavailable.

    An unavailable S3 is not an error: the report is stored, and the next run publishes its copies.
    """
    if request.dry_run:
        return _dry_run(request, effects, now)
    name, database = REAPER, effects.database
    try:
        with exclusive.held(database, name, request.actor, ttl_seconds=LEASE_SECONDS, now=now) as lease:
            return _published(_clean(request, effects, lease, now), effects, now)
    except LeaseTaken as taken:
        raise ReaperRunning(taken.started_at, taken.holder) from None
    except LeaseOver:
        raise ReaperOvertaken from None


def _dry_run(request: ReapRequest, effects: ReapEffects, now: datetime | None) -> Reaped:
    """Report what a run would find. It changes nothing, so it needs neither the lease nor a cleared stop."""
    with effects.database.connection() as connection:
        backlog = store.backlog(connection, request.rules, now)
        report = _report(request, effects.zone, store.clock(connection, now), backlog, [])
    return Reaped(report, backlog, request.rules.breaker.trips(backlog, request.confirmed_stale))


def _clean(request: ReapRequest, effects: ReapEffects, lease: Lease, now: datetime | None) -> Reaped:
    with effects.database.connection() as connection, connection.transaction():
        exclusive.keep(connection, lease)
        stop.require_clear(connection)
        backlog = store.backlog(connection, request.rules, now)
        tripped = request.rules.breaker.trips(backlog, request.confirmed_stale)
        cleaned = [] if tripped else store.reap(connection, request.rules, now)
        report = _report(request, effects.zone, store.clock(connection, now), backlog, cleaned)
        stored = reports.insert(connection, report, actor=request.actor, breaker_tripped=tripped)
    _log_run(stored, request, tripped=tripped)
    return Reaped(stored.report, backlog, tripped, stored.snapshot_key)


def _published(reaped: Reaped, effects: ReapEffects, now: datetime | None) -> Reaped:
    try:
        reports.publish(effects.database, effects.storage, now)
    except DependencyUnavailable as error:
        _LOG.error("report not published; the next run publishes it", extra={"error": {"dependency": error.dependency}})
        return reaped
    return Reaped(reaped.report, reaped.backlog, reaped.breaker_tripped, reaped.snapshot_key, published=True)


def _report(
    request: ReapRequest, zone: ZoneInfo, at: datetime, backlog: Backlog, cleaned: list[CleanedTicket]
) -> ReaperReport:
    items = tuple(
        CleanedItem(
            request_id=one.request_id,
            request_type=one.request_type,
            last_processed_at=one.last_processed_at.astimezone(zone),
        )
        for one in cleaned
    )
    return ReaperReport(
        asof=at.astimezone(zone).replace(microsecond=0),
        decision=Decision.CLEANED if items else Decision.NONE,
        threshold_seconds=request.rules.threshold_seconds,
        stale_count=backlog.stale,
        cleaned_count=len(items),
        cleaned_items=items,
        evidence_refs=(),
    )


def _log_run(stored: StoredReport, request: ReapRequest, *, tripped: bool) -> None:
    fields = {
        "actor": request.actor,
        "decision": stored.report.decision,
        "stale_count": stored.report.stale_count,
        "cleaned_count": stored.report.cleaned_count,
        "snapshot_key": stored.snapshot_key,
        "breaker_tripped": tripped,
    }
    if tripped:
        _LOG.error(
            "breaker tripped: no stale ticket was ended; end them with `dpp tickets reap --confirm N`", extra=fields
        )
    else:
        _LOG.info("reaper ran", extra=fields)
