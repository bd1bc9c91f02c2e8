"""The ops cycle: emergency stop, reaper, tickets (TIX-6). Runs every minute."""

from functools import cache
from typing import Any

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import DeadLetterSettings, PostgresSettings, QueueSettings, RedisSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability import metrics
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.scheduled_job import scheduled_job
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.tickets.counters import OpsCounters
from dpp.tickets.cycle import Cycle, CycleEffects, run_cycle
from dpp.tickets.errors import CycleRunning
from dpp.tickets.process import ProcessEffects, TicketOutcome
from dpp.tickets.reap import ReapEffects
from dpp.tickets.receipt import StepOutcome
from ops_cycle.executors import Owners, executors

logger = service_logger("ops_cycle")
meter = Meter()


class OpsCycleSettings(
    PostgresSettings, RedisSettings, QueueSettings, DeadLetterSettings, ReportsSettings, ReaperSettings
):
    """Rows, budgets, the run queue with its dead-letter queue, the reports bucket and the reaper's rules."""


@cache
def wiring() -> CycleEffects:
    """Read the environment and build; connections open at their first use."""
    settings = OpsCycleSettings.load()
    database = Database(settings.database)
    owners = Owners(
        database,
        Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        Queue(settings.run_queue_url),
        Queue(settings.run_dead_letter_queue_url),
    )
    return CycleEffects(
        ReapEffects(database, ObjectStore(settings.reports_bucket), settings.zone),
        ProcessEffects(database, executors(owners), settings.rules),
    )


@scheduled_job(logger, meter, already_running=(CycleRunning,))
def handler() -> dict[str, Any]:
    """Run one tick. The report omits the stop's reason: it is an operator's free text, which no log may contain."""
    cycle = run_cycle(wiring())
    _measure(cycle)
    return cycle.receipt.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"emergency_stop": {"reason"}}
    )


def _measure(cycle: Cycle) -> None:
    stop = cycle.receipt.emergency_stop
    meter.add(metrics.EMERGENCY_STOP, int(stop is not None and stop.stopped))
    for name, step in (("ticket_reaper", cycle.receipt.ticket_reaper), ("tickets", cycle.receipt.tickets)):
        failed = step is not None and step.outcome is StepOutcome.FAILED
        meter.add(metrics.OPS_STEPS_FAILED, int(failed), Step=name)
    if cycle.reaped is not None:
        meter.add(metrics.TICKETS_CLEANED, cycle.reaped.report.cleaned_count)
        meter.add(metrics.REAPER_BREAKER, int(cycle.reaped.breaker_tripped))
    if cycle.processed is not None:
        for outcome in TicketOutcome:
            meter.add(metrics.TICKETS_ENDED, cycle.processed.count(outcome), Outcome=outcome)
    if cycle.counters is not None:
        _measure_backlog(cycle.counters)


def _measure_backlog(found: OpsCounters) -> None:
    meter.add(metrics.TICKETS_OPEN, found.total.open.count)
    meter.add(metrics.TICKETS_IN_PROGRESS, found.total.in_progress.count)
    meter.add(metrics.TICKETS_STALE, found.total.stale.count)
    oldest = found.total.open.oldest_at
    meter.add(metrics.TICKET_AGE, 0 if oldest is None else max(0.0, (found.asof - oldest).total_seconds()))
