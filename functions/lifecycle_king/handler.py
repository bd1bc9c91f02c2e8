"""The king, on his schedule and when he is woken: events become tasks, and end as their tasks ended (LIFE-1)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.king import rule
from dpp.platform.invocation import invocation
from dpp.platform.logging import service_logger
from dpp.platform.meter import Meter
from dpp.platform.metrics import FIRINGS
from lifecycle_king.wiring import wiring

logger = service_logger("lifecycle_king")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    told = rule(wiring()).as_dict()
    meter.add(FIRINGS)
    logger.info("fired", extra={"report": told})
    return told
