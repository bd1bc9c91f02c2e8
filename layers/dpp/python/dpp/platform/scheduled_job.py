"""The handler of a function that EventBridge invokes on a schedule."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import TICKS

type Job = Callable[[], dict[str, Any]]
type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


def scheduled_job(
    logger: Logger, meter: Meter, *, already_running: tuple[type[Exception], ...] = ()
) -> Callable[[Job], Handler]:
    """Decorate a job, which returns its report, as a handler that counts the tick and logs the report.

    The event is ignored. `already_running`: what the job raises while another invocation holds its lease; such a tick
    is logged as a warning and not counted.
    """

    def decorate(job: Job) -> Handler:
        @invocation(logger, meter)
        def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
            try:
                report = job()
            except already_running as running:
                logger.warning(str(running))
                return {"outcome": "ANOTHER_IS_RUNNING"}
            meter.add(TICKS)
            logger.info("tick done", extra={"report": report})
            return report

        return handler

    return decorate
