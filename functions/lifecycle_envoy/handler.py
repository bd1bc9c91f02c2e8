"""The envoy, on his schedule and when he is woken: messages go to Slack (LIFE-5)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.notifier import send_messages
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import FIRINGS, MESSAGES_DELIVERED
from lifecycle_envoy.wiring import wiring

logger = service_logger("lifecycle_envoy")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    report = send_messages(wiring())
    meter.add(FIRINGS)
    for outcome, count in (("SENT", report.sent), ("REPEATED", report.repeated), ("FAILED", report.failed)):
        meter.add(MESSAGES_DELIVERED, count, Outcome=outcome)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told
