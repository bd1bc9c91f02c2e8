"""Runs one pack that meets the internet, for the worker, where no database can be reached (RUN-26, D6)."""

import threading
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.packs.contract import PACK_RESULT, PackRequest
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from pack_outside.wiring import wiring

logger = service_logger("packs")
meter = Meter()


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> Any:
    """The result of the job in `event`, a `PackRequest`; nothing of it is logged but its ids (RUN-31)."""
    request = PackRequest.model_validate(event)
    packs = wiring()
    result = packs.run(request, cancelled=threading.Event())
    packs.prestart()
    logger.info(
        "pack done",
        extra={"run_id": request.run_id, "pack_type": request.pack_type, "outcome": result.outcome},
    )
    return PACK_RESULT.dump_python(result, mode="json")
