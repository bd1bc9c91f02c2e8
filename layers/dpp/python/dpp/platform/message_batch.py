"""A batch of SQS messages, handled one by one: a message that fails is returned to its queue alone."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import where
from dpp.platform.observability.meter import Meter

type BatchHandler = Callable[[dict[str, Any], LambdaContext], PartialItemFailureResponse]


class ReturnMessage(Exception):
    """Raised to return a message to its queue as planned: SQS delivers it again, and no error is logged."""


def process_batch(
    logger: Logger, work_on: Callable[[SQSRecord], None], event: dict[str, Any], context: LambdaContext
) -> PartialItemFailureResponse:
    """Call `work_on` with each message. The response names those for which it raised, for SQS to deliver again.

    The batch processor swallows the error, so it is logged here: class and frames only, since a traceback may quote
    what a client sent (RUN-31).
    """

    def logged(record: SQSRecord) -> None:
        try:
            work_on(record)
        except ReturnMessage:
            raise
        except Exception as error:
            fields = {"message_id": record.message_id, "error": where(error)}
            logger.error("message returned", extra=fields)  # noqa: TRY400 - a traceback may quote the message
            raise

    # A batch of which every message fails is not an error of the invocation: each counts its own receives.
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=event, record_handler=logged, processor=processor, context=context)


def batch_handler(logger: Logger, meter: Meter, work_on: Callable[[SQSRecord], None]) -> BatchHandler:
    """A handler that works on a batch; its response names the messages to deliver again."""

    @invocation(logger, meter)
    def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
        return process_batch(logger, work_on, event, context)

    return handler
