"""Retention, on its schedule: tombstones after 30 days, inputs deleted after an hour (RUN-12, D7, D8)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS, INPUTS_PURGED, RUNS_EXPIRED
from dpp.runs.jobs.retain import retain
from run_retention.wiring import wiring

logger = service_logger("retention")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    done = retain(parts.database, parts.scan)
    meter.add(FIRINGS)
    meter.scanned("expired", done.expired, RUNS_EXPIRED)
    meter.add(INPUTS_PURGED, done.purged_inputs)
    report = {"expired": done.expired.as_dict(), "purged_inputs": done.purged_inputs}
    logger.info("fired", extra={"report": report})
    return report
