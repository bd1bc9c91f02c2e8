"""Retention, on its schedule: tombstones after 30 days, inputs deleted after an hour (RUN-12, D7, D8)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.logging import service_logger
from dpp.runs.retain import retain
from run_retention.wiring import wiring

logger = service_logger("retention")


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    done = retain(parts.database, parts.scan)
    report = {"expired": done.expired.as_dict(), "purged_inputs": done.purged_inputs}
    logger.info("fired", extra={"report": report})
    return report
