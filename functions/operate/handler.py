"""Runs an operator command in the servers' network, for callers that IAM permits to invoke it (docs/cli.md).

The log has the command's words, except the text of an answer to a task, and never its output: `key create` prints a key
(RUN-31). CloudTrail records the caller if a trail records Lambda's data events (docs/deploy.md).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.auth_errors.config import EventDeadLetterSettings, RetrySettings, WakeQueueSettings
from dpp.lifecycle.config import CleanerSettings, StateSettings, WakesGeneral
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import DeadLetterSettings, PostgresSettings, QueueSettings, RedisSettings, StorageSettings
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.workspaces.config import OptionalArchiveSettings, OptionalObserveQueueSettings, OptionalWorkQueueSettings
from dpp_cli.operator.app import operator_app
from operate.command import USAGE, Ran, run
from operate.request import BadEvent, loggable, read, reply

logger = service_logger("operate")
meter = Meter()


class OperateSettings(
    PostgresSettings,
    RedisSettings,
    QueueSettings,
    DeadLetterSettings,
    StorageSettings,
    ReportsSettings,
    ReaperSettings,
    EventDeadLetterSettings,
    WakeQueueSettings,
    OptionalObserveQueueSettings,
    OptionalWorkQueueSettings,
    OptionalArchiveSettings,
    StateSettings,
    RetentionSettings,
    RetrySettings,
    CleanerSettings,
    WakesGeneral,
):
    """The settings of all operator commands together."""


@cache
def wiring() -> Callable[[Sequence[str], int], Ran]:
    """Check the whole environment once; each command then reads its own part. Raises ConfigurationError."""
    OperateSettings.load()
    app = operator_app()
    return lambda words, columns: run(app, words, columns)


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> Mapping[str, Any]:
    """Answer `{"words": ["ledger", "check", "--json"]}` with `{"exit_code": 0, "stdout": "…", "stderr": "…"}`."""
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
