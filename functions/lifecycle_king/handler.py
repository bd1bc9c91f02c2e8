"""The king, on his schedule and when he is woken: events become tasks, and end as their tasks ended (LIFE-1)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.dispatcher import dispatch
from dpp.lifecycle.flow.reading.read import Backlog, backlog
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS, FLOW_AGE, FLOW_WAITING, TASKS_BEGUN
from lifecycle_king.wiring import wiring

logger = service_logger("lifecycle_king")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    effects = wiring()
    report = dispatch(effects)
    with effects.database.connection() as connection:
        _measure(backlog(connection))
    meter.add(FIRINGS)
    meter.add(TASKS_BEGUN, report.dispatched)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told


def _measure(found: Backlog) -> None:
    for item, waiting, seconds in (
        ("EVENT", found.events_pending, found.oldest_event_seconds),
        ("TASK", found.tasks_pending + found.tasks_in_progress, found.oldest_task_seconds),
        ("MESSAGE", found.messages_pending, found.oldest_message_seconds),
    ):
        meter.add(FLOW_WAITING, waiting, Item=item)
        meter.add(FLOW_AGE, seconds, Item=item)
