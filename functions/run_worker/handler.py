"""The worker: SQS messages to ended runs (RUN-15 … RUN-19). A message that fails comes again, alone."""

from typing import Any

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation, of_message
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import MESSAGES, QUEUE_AGE
from dpp.runs.execute import execute
from dpp.runs.message import RunMessage
from run_worker.wiring import wiring

logger = service_logger("worker")
meter = Meter()
# A batch that fails whole is reported message by message too, so that each counts its own receives.
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


def work_on(record: SQSRecord) -> None:
    """Work on one message. Whatever is raised returns the message to the queue; the third time, to the DLQ."""
    with of_message(logger, record.message_id):
        _work_on(record)


def _work_on(record: SQSRecord) -> None:
    message = RunMessage.model_validate_json(record.body)
    worked = execute(message, record.receipt_handle, wiring())
    meter.add(MESSAGES, Outcome=worked.outcome)
    if worked.waited_seconds is not None:
        meter.add(QUEUE_AGE, worked.waited_seconds)
    meter.run_ended(worked.ending)
    logger.info(
        "message done",
        extra={"run_id": str(message.run_id), "tenant_id": message.tenant_id, "outcome": worked.outcome},
    )


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on a batch; the answer names the messages that failed."""
    answer = process_partial_response(
        event=event, record_handler=work_on, processor=processor, context=context
    )
    meter.add(MESSAGES, len(answer["batchItemFailures"]), Outcome="RETURNED")
    return answer
