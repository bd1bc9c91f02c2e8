"""The general, on his schedule and when he is woken: tasks are carried out (LIFE-2 … LIFE-4)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.runner import Step, run_tasks
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS, TASK_LOOKS
from lifecycle_general.wiring import wiring

logger = service_logger("lifecycle_general")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    told = run_tasks(wiring()).as_dict()
    meter.add(FIRINGS)
    for step in (*Step, "LEFT"):
        meter.add(TASK_LOOKS, told[step.lower()], Step=step)
    logger.info("fired", extra={"report": told})
    return told
