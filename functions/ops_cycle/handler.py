"""The ops cycle, on its schedule: emergency stop, reaper, tickets (TIX-6)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    EMERGENCY_STOP,
    FIRINGS,
    OPS_STEPS_FAILED,
    REAPER_BREAKER,
    TICKET_AGE,
    TICKETS_CLEANED,
    TICKETS_ENDED,
    TICKETS_IN_PROGRESS,
    TICKETS_OPEN,
    TICKETS_STALE,
)
from dpp.tickets.counters import OpsCounters
from dpp.tickets.cycle import Cycle, run_cycle
from dpp.tickets.errors import CycleRunning
from dpp.tickets.process import TicketOutcome
from dpp.tickets.receipt import StepOutcome
from ops_cycle.wiring import wiring

logger = service_logger("ops_cycle")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    try:
        cycle = run_cycle(wiring())
    except CycleRunning as running:
        logger.warning(str(running))
        return {"outcome": "ANOTHER_IS_RUNNING"}
    meter.add(FIRINGS)
    _measure(cycle)
    # Not the stop's reason: it is an operator's own words, and no log has those.
    unsaid = {"emergency_stop": {"reason"}}
    told = cycle.receipt.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=unsaid)
    logger.info("fired", extra={"report": told})
    return told


def _measure(cycle: Cycle) -> None:
    stop = cycle.receipt.emergency_stop
    meter.add(EMERGENCY_STOP, int(stop is not None and stop.stopped))
    for name, step in (("ticket_reaper", cycle.receipt.ticket_reaper), ("tickets", cycle.receipt.tickets)):
        failed = step is not None and step.outcome is StepOutcome.FAILED
        meter.add(OPS_STEPS_FAILED, int(failed), Step=name)
    if cycle.reaped is not None:
        meter.add(TICKETS_CLEANED, cycle.reaped.report.cleaned_count)
        meter.add(REAPER_BREAKER, int(cycle.reaped.breaker_tripped))
    if cycle.processed is not None:
        for outcome in TicketOutcome:
            meter.add(TICKETS_ENDED, cycle.processed.of(outcome), Outcome=outcome)
    if cycle.counters is not None:
        _measure_backlog(cycle.counters)


def _measure_backlog(found: OpsCounters) -> None:
    meter.add(TICKETS_OPEN, found.total.open.count)
    meter.add(TICKETS_IN_PROGRESS, found.total.in_progress.count)
    meter.add(TICKETS_STALE, found.total.stale.count)
    oldest = found.total.open.oldest_at
    meter.add(TICKET_AGE, 0 if oldest is None else max(0.0, (found.asof - oldest).total_seconds()))
