"""One run of the reaper (TIX-1 … TIX-5): end what is stale, write the report in the same transaction, publish it.

One run at a time, by a lease. A crash before the commit changes nothing, and the next run does it all; a crash after
it leaves the copies in S3 to the next run (`dpp.tickets.reports`), and the lease to its end, which is three minutes
after its beginning: until then other runs are told that this one is under way.
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
"""Longer than any function that runs the reaper may live (`cdk/dpp_cdk/settings/timings.py`)."""


@dataclass(frozen=True, slots=True)
class ReapEffects:
    """What a run touches, and the zone that its report's times are written in (TIX-7)."""

    database: Database
    storage: ObjectStore
    zone: ZoneInfo


@dataclass(frozen=True, slots=True)
class ReapRequest:
    """Who wants a run, and by which rules. `confirmed_stale`: so many may be stale for all that the breaker says."""

    actor: str
    rules: ReaperRules
    confirmed_stale: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Reaped:
    """What a run did. `snapshot_key` None: a dry run, which leaves no report."""

    report: ReaperReport
    backlog: Backlog
    breaker_tripped: bool
    snapshot_key: str | None = None
    published: bool = False


def reap(order: ReapRequest, effects: ReapEffects, now: datetime | None = None) -> Reaped:
    """Run the reaper. Raises ReaperRunning, ReaperOvertaken, EmergencyStopSet and DependencyUnavailable.

    S3 that doesn't answer is not among them: the report stands, and its copies follow with the next run.
    """
    if order.dry_run:
        return _look(order, effects, now)
    name, database = REAPER, effects.database
    try:
        with exclusive.held(database, name, order.actor, ttl_seconds=LEASE_SECONDS, now=now) as lease:
            return _published(_clean(order, effects, lease, now), effects, now)
    except LeaseTaken as taken:
        raise ReaperRunning(taken.started_at, taken.holder) from None
    except LeaseOver:
        raise ReaperOvertaken from None


def _look(order: ReapRequest, effects: ReapEffects, now: datetime | None) -> Reaped:
    """What a run would find; it changes nothing, so neither lease nor stop matter."""
    with effects.database.connection() as connection:
        backlog = store.backlog(connection, order.rules, now)
        report = _report(order, effects.zone, store.clock(connection, now), backlog, [])
    return Reaped(report, backlog, order.rules.breaker.trips(backlog, order.confirmed_stale))


def _clean(order: ReapRequest, effects: ReapEffects, lease: Lease, now: datetime | None) -> Reaped:
    with effects.database.connection() as connection, connection.transaction():
        exclusive.keep(connection, lease)
        stop.require_clear(connection)
        backlog = store.backlog(connection, order.rules, now)
        tripped = order.rules.breaker.trips(backlog, order.confirmed_stale)
        cleaned = [] if tripped else store.reap(connection, order.rules, now)
        report = _report(order, effects.zone, store.clock(connection, now), backlog, cleaned)
        kept = reports.keep(connection, report, actor=order.actor, breaker_tripped=tripped)
    _tell(kept, order, tripped=tripped)
    return Reaped(kept.report, backlog, tripped, kept.snapshot_key)


def _published(reaped: Reaped, effects: ReapEffects, now: datetime | None) -> Reaped:
    try:
        reports.publish(effects.database, effects.storage, now)
    except DependencyUnavailable as error:
        _LOG.error(
            "report not published; the next run will", extra={"error": {"dependency": error.dependency}}
        )
        return reaped
    return Reaped(reaped.report, reaped.backlog, reaped.breaker_tripped, reaped.snapshot_key, published=True)


def _report(
    order: ReapRequest, zone: ZoneInfo, at: datetime, backlog: Backlog, cleaned: list[CleanedTicket]
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
        threshold_seconds=order.rules.threshold_seconds,
        stale_count=backlog.stale,
        cleaned_count=len(items),
        cleaned_items=items,
        evidence_refs=(),
    )


def _tell(kept: StoredReport, order: ReapRequest, *, tripped: bool) -> None:
    fields = {
        "actor": order.actor,
        "decision": kept.report.decision,
        "stale_count": kept.report.stale_count,
        "cleaned_count": kept.report.cleaned_count,
        "snapshot_key": kept.snapshot_key,
        "breaker_tripped": tripped,
    }
    if tripped:
        _LOG.error("so many are stale that none was ended; an operator must confirm it", extra=fields)
    else:
        _LOG.info("reaper ran", extra=fields)
