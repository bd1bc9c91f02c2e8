"""The outbox's publisher, woken by each new event and by the clock once a minute (AUTH-4)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from auth_errors_publish.wiring import wiring
from dpp.auth_errors import store
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import WAKE, PublishEffects, publish
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    AUTH_CLUSTERS_GROWING,
    AUTH_CLUSTERS_NEW,
    EVENTS_DEAD,
    EVENTS_RETRYING,
    FIRINGS,
    OUTBOX_DEAD,
    OUTBOX_DELAY,
    OUTBOX_LAG,
    OUTBOX_PUBLISHED,
    OUTBOX_SENT_AGAIN,
    OUTBOX_WAITING,
)

logger = service_logger("auth_errors_publish")
meter = Meter()


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Publish what is due; invoked by hand, with all that the schedule's scheduled does.

    A failure returns the messages, which only wake: whatever they were for is in the outbox.
    """
    bodies = [record.get("body") for record in event.get("Records", ())]
    scheduled = not bodies or any(body != WAKE for body in bodies)
    effects = wiring()
    report = publish(effects, scheduled=scheduled)
    meter.add(OUTBOX_PUBLISHED, report.published)
    for seconds in report.delays_seconds:
        meter.add(OUTBOX_DELAY, seconds)
    if scheduled:
        meter.add(FIRINGS)
        meter.add(OUTBOX_SENT_AGAIN, report.sent_again)
        _measure(effects)
    told = report.as_dict()
    logger.info("fired", extra={"report": told, "scheduled": scheduled})
    return {**told, "batchItemFailures": []}


def _measure(effects: PublishEffects) -> None:
    """What waits and what died; by the clock alone, since it is counted."""
    with effects.database.connection() as connection:
        lag = tables.lag(connection)
        growing, new = store.growing(connection)
    meter.add(OUTBOX_WAITING, lag.unpublished)
    meter.add(OUTBOX_LAG, lag.oldest_due_seconds)
    meter.add(OUTBOX_DEAD, lag.dead_in_outbox)
    meter.add(EVENTS_RETRYING, lag.waiting_for_retry)
    meter.add(EVENTS_DEAD, lag.dead_in_ledger)
    meter.add(AUTH_CLUSTERS_GROWING, growing)
    meter.add(AUTH_CLUSTERS_NEW, new)
