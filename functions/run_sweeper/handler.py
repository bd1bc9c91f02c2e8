"""The sweeper, on its schedule: refund what waited too long (RUN-21)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS
from dpp.runs.jobs.sweep import sweep
from run_sweeper.wiring import wiring

logger = service_logger("sweeper")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    report = sweep(parts.effects, parts.scan)
    meter.add(FIRINGS)
    meter.scanned("waiting", report)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told
