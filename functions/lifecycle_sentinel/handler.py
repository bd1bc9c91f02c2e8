"""The sentinel, on his schedule: asks the sources that are due, and takes in what is new (LIFE-1, LIFE-7)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.sentinel import watch
from dpp.platform.invocation import invocation
from dpp.platform.logging import service_logger
from dpp.platform.meter import Meter
from dpp.platform.metrics import FIRINGS
from lifecycle_sentinel.wiring import wiring

logger = service_logger("lifecycle_sentinel")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    told = watch(wiring()).as_dict()
    meter.add(FIRINGS)
    logger.info("fired", extra={"report": told})
    return told
