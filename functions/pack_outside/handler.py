"""Runs one pack that uses the internet, for the worker, outside of the network of the databases (RUN-26, D6)."""

import os
import threading
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.packs.contract import PACK_RESULT, PackRequest
from dpp.packs.process import PackProcess
from dpp.platform.config import ModelSettings, variable
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter

logger = service_logger("packs")
meter = Meter()
_KEY_VARIABLE = "DPP_DECISION_OPENAI_API_KEY"


class PackOutsideSettings(ModelSettings):
    """Only the decision engine: no database, cache, queue or bucket is reachable from here.

    The engine's key is given as a value, which wins, or by the ARN of a secret `{"api_key": …}`.
    """

    openai_api_key_secret_arn: str | None = variable(
        "DPP_DECISION_OPENAI_API_KEY_SECRET_ARN",
        'The secret `{"api_key": …}` in place of the key.',
        None,
        pattern=r"^arn:",
    )


@cache
def wiring() -> PackProcess:
    """Read the environment, fetch the engine's key if it is given by ARN, and start the first process."""
    settings = PackOutsideSettings.load()
    environ = dict(os.environ)
    if settings.openai_api_key is None and settings.openai_api_key_secret_arn is not None:
        from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, which most deployments do not need here

        fields = secrets.shared(settings.openai_api_key_secret_arn).current()
        environ[_KEY_VARIABLE] = secrets.field(fields, "api_key")
    packs = PackProcess(environ)
    packs.prestart()
    return packs


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> Any:
    """Run the `PackRequest` in `event` and return its result. Only ids are logged (RUN-31)."""
    request = PackRequest.model_validate(event)
    packs = wiring()
    result = packs.run(request, cancelled=threading.Event())
    packs.prestart()
    logger.info(
        "pack done", extra={"run_id": request.run_id, "pack_type": request.pack_type, "outcome": result.outcome}
    )
    return PACK_RESULT.dump_python(result, mode="json")
