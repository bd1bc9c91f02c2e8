"""The reaper, on its schedule: fail what a worker left behind (RUN-20)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS
from dpp.runs.jobs.reap import reap
from run_reaper.wiring import wiring

logger = service_logger("reaper")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    report = reap(parts.effects, parts.scan)
    meter.add(FIRINGS)
    meter.scanned("expired_leases", report)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told
