"""The outermost edge of every function: context in the log, metrics out, and no word of a client's in an error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.config import ConfigurationError
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import where
from dpp.platform.observability.meter import Meter


class InvocationFailed(Exception):
    """The function failed; the message is the class of what was raised, and the log says where."""


def invocation[Answer](
    logger: Logger, meter: Meter
) -> Callable[
    [Callable[[dict[str, Any], LambdaContext], Answer]], Callable[[dict[str, Any], LambdaContext], Answer]
]:
    """Decorate a function's handler.

    Lambda writes the message of whatever a handler raises into the log, and a library's message may quote what a
    client sent or a password (RUN-31, D8). So the log gets class and frames, and Lambda an error without a cause.
    Ours whose messages hold nothing but names (a dependency, a variable) go through as they are.
    """

    def decorate(
        handler: Callable[[dict[str, Any], LambdaContext], Answer],
    ) -> Callable[[dict[str, Any], LambdaContext], Answer]:
        # log_event: else POWERTOOLS_LOGGER_LOG_EVENT in the environment would log every request whole.
        @logger.inject_lambda_context(clear_state=True, log_event=False)
        def invoked(event: dict[str, Any], context: LambdaContext) -> Answer:
            try:
                return handler(event, context)
            except (DependencyUnavailable, ConfigurationError):
                raise
            except Exception as error:  # noqa: BLE001 - the outermost edge, and it is raised again by its class
                found = where(error)
                logger.error("unexpected error", extra={"error": found})  # noqa: TRY400 - no traceback, as said
                raise InvocationFailed(found["class"]) from None
            finally:
                meter.emit(context.function_name)

        return invoked

    return decorate


@contextmanager
def of_message(logger: Logger, message_id: str) -> Iterator[None]:
    """Work on one message of a batch: whatever is raised returns it to the queue.

    The batch processor keeps the error to itself; without this line nobody would learn why a message returns. It says
    class and frames, since a traceback may quote what a client sent.
    """
    try:
        yield
    except Exception as error:
        told = {"message_id": message_id, "error": where(error)}
        logger.error("message returned", extra=told)  # noqa: TRY400 - no traceback, as said
        raise
