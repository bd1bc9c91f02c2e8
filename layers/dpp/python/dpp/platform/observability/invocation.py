"""Wraps every function's handler: adds context to the log, emits metrics, and keeps clients' data out of errors."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.config import ConfigurationError
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import where
from dpp.platform.observability.meter import Meter


class InvocationFailed(Exception):
    """The invocation failed. The message is the class of the original error; the log has its frames."""


def invocation[Answer](
    logger: Logger, meter: Meter
) -> Callable[[Callable[[dict[str, Any], LambdaContext], Answer]], Callable[[dict[str, Any], LambdaContext], Answer]]:
    """Decorate a function's handler.

    Lambda logs the message of whatever a handler raises, and a library's message may quote a client's data or a
    password (RUN-31, D8). So the class and the frames are logged here, and Lambda gets an error without a cause.
    DependencyUnavailable and ConfigurationError pass through: their messages contain only names.
    """

    def decorate(
        handler: Callable[[dict[str, Any], LambdaContext], Answer],
    ) -> Callable[[dict[str, Any], LambdaContext], Answer]:
        # log_event=False: otherwise POWERTOOLS_LOGGER_LOG_EVENT in the environment would log whole requests.
        @logger.inject_lambda_context(clear_state=True, log_event=False)
        def invoked(event: dict[str, Any], context: LambdaContext) -> Answer:
            try:
                return handler(event, context)
            except (DependencyUnavailable, ConfigurationError):
                raise
            except Exception as error:  # noqa: BLE001 - the outermost edge; raised again below
                found = where(error)
                logger.error("unexpected error", extra={"error": found})  # noqa: TRY400 - a traceback may quote data
                raise InvocationFailed(found["class"]) from None
            finally:
                meter.emit(context.function_name)

        return invoked

    return decorate
