"""Asks GitHub, Jira or Slack one thing, for the functions beside the database, which can't (PLAT-2)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.ports import OutsideRequest
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from lifecycle_outside.wiring import wiring

logger = service_logger("lifecycle_outside")
meter = Meter()


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """The reply to the request in `event`, an `OutsideRequest`; of neither is more logged than this."""
    request = OutsideRequest.model_validate(event)
    reply = wiring().ask(request)
    logger.info("asked", extra={"target": request.target, "method": request.method, "status": reply.status})
    return reply.model_dump(mode="json")
