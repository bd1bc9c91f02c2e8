"""Runs an operator command beside the servers, for whoever IAM lets invoke it (docs/cli.md).

The log keeps the words, but not the answer to a task, and never what they printed: `key create` prints a key (RUN-31).
Who asked stands in CloudTrail, where a trail records Lambda's data events (docs/deploy.md).
"""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from operate.command import USAGE
from operate.request import BadEvent, loggable, read, reply
from operate.wiring import wiring

logger = service_logger("operate")
meter = Meter()


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> Mapping[str, Any]:
    """`{"words": ["ledger", "check", "--json"]}` to `{"exit_code": 0, "stdout": "…", "stderr": "…"}`."""
    try:
        request = read(event)
    except BadEvent as error:
        logger.warning("bad event")
        return reply(USAGE, "", f"error: {error}\n")
    words = loggable(request.words)
    logger.info("command", extra={"words": words})
    ran = wiring()(request.words, request.columns)
    logger.info("command done", extra={"words": words, "exit_code": ran.exit_code})
    return reply(ran.exit_code, ran.stdout, ran.stderr)
