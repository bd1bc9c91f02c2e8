"""Sends one request to GitHub, Jira or Slack, for the functions in the VPC, which cannot reach them (PLAT-2)."""

from functools import cache, partial
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.config import CredentialSettings
from dpp.lifecycle.flow.egress import Credentials, Egress
from dpp.lifecycle.flow.ports import OutsideRequest
from dpp.platform.aws.renewable import of_secret
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter

logger = service_logger("lifecycle_outside")
meter = Meter()


class LifecycleOutsideSettings(CredentialSettings):
    """Only addresses and credentials: no database is reachable from here."""


@cache
def wiring() -> Egress:
    """Read the environment, and fetch the secret if one is named."""
    settings = LifecycleOutsideSettings.load()
    return Egress(of_secret(settings.lifecycle_secret_arn, partial(Credentials.of, settings)))


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Send the `OutsideRequest` in `event` and return the reply. Only target, method and status are logged."""
    request = OutsideRequest.model_validate(event)
    reply = wiring().ask(request)
    logger.info("asked", extra={"target": request.target, "method": request.method, "status": reply.status})
    return reply.model_dump(mode="json")
