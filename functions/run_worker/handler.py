"""The worker: carries out the runs that SQS delivers (RUN-15 … RUN-19)."""

import os
from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.money.ledger import Ledger
from dpp.packs.outside import OutsidePacks, RoutedPacks
from dpp.packs.process import PackProcess
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import (
    ModelSettings,
    OutsidePackSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)
from dpp.platform.db.postgres import Database
from dpp.platform.message_batch import process_batch
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import MESSAGES, QUEUE_AGE
from dpp.runs.execute import Packs, WorkEffects, execute
from dpp.runs.message import RunMessage

logger = service_logger("worker")
meter = Meter()


class RunWorkerSettings(
    PostgresSettings, RedisSettings, QueueSettings, StorageSettings, ModelSettings, OutsidePackSettings
):
    """Rows, budgets, the run queue (to extend visibility), the results bucket, and the packs' settings."""


@cache
def wiring() -> WorkEffects:
    """Read the environment, build, and start the first pack process."""
    settings = RunWorkerSettings.load()
    packs = PackProcess(os.environ)
    packs.prestart()
    return WorkEffects(
        database=Database(settings.database),
        new_database=lambda: Database(settings.database),
        ledger=Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        queue=Queue(settings.run_queue_url),
        storage=ObjectStore(settings.results_bucket),
        packs=_routed(packs, settings),
    )


def _routed(packs: PackProcess, settings: RunWorkerSettings) -> Packs:
    """Packs that use the internet run in the function outside of the VPC, if there is one."""
    if settings.pack_outside_function is None:
        return packs
    outside = OutsidePacks(settings.pack_outside_function)
    return RoutedPacks(packs, outside, model_uses_internet=settings.uses_internet)


def work_on(record: SQSRecord) -> None:
    """Work on one message. An exception returns the message to the queue; the third sends it to the DLQ."""
    message = RunMessage.model_validate_json(record.body)
    worked = execute(message, record.receipt_handle, wiring())
    meter.add(MESSAGES, Outcome=worked.outcome)
    if worked.waited_seconds is not None:
        meter.add(QUEUE_AGE, worked.waited_seconds)
    meter.run_ended(worked.ending)
    logger.info(
        "message done", extra={"run_id": str(message.run_id), "tenant_id": message.tenant_id, "outcome": worked.outcome}
    )


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Work on a batch; the response names the messages that failed."""
    response = process_batch(logger, work_on, event, context)
    meter.add(MESSAGES, len(response["batchItemFailures"]), Outcome="RETURNED")
    return response
