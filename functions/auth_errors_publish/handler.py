"""The outbox's publisher, invoked for each new event and by a schedule once a minute (AUTH-4)."""

from functools import cache
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.auth_errors import store
from dpp.auth_errors.config import EventQueueSettings, RetrySettings
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import WAKE, PublishEffects, publish
from dpp.platform.aws.queue import Queue
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability import metrics
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter

logger = service_logger("auth_errors_publish")
meter = Meter()


class AuthErrorsPublishSettings(PostgresSettings, EventQueueSettings, RetrySettings):
    """Rows, the event queue, and the retry policy."""


@cache
def wiring() -> PublishEffects:
    """Read the environment and build; connections open at their first use."""
    settings = AuthErrorsPublishSettings.load()
    return PublishEffects(Database(settings.database), Queue(settings.event_queue_url), settings.policy)


@invocation(logger, meter)
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Publish what is due. A manual invocation does everything that a tick does.

    A failure returns the messages. They only wake this function: the events are in the outbox.
    """
    bodies = [record.get("body") for record in event.get("Records", ())]
    is_tick = not bodies or any(body != WAKE for body in bodies)
    effects = wiring()
    done = publish(effects, scheduled=is_tick)
    meter.add(metrics.OUTBOX_PUBLISHED, done.published)
    for seconds in done.delays_seconds:
        meter.add(metrics.OUTBOX_DELAY, seconds)
    if is_tick:
        meter.add(metrics.TICKS)
        meter.add(metrics.OUTBOX_SENT_AGAIN, done.sent_again)
        _measure(effects)
    report = done.as_dict()
    logger.info("tick done" if is_tick else "published", extra={"report": report})
    return {**report, "batchItemFailures": []}


def _measure(effects: PublishEffects) -> None:
    """Count waiting and dead events; at ticks only, since the queries are expensive."""
    with effects.database.connection() as connection:
        lag = tables.lag(connection)
        growing, new = store.growing(connection)
    meter.add(metrics.OUTBOX_WAITING, lag.unpublished)
    meter.add(metrics.OUTBOX_LAG, lag.oldest_due_seconds)
    meter.add(metrics.OUTBOX_DEAD, lag.dead_in_outbox)
    meter.add(metrics.EVENTS_RETRYING, lag.waiting_for_retry)
    meter.add(metrics.EVENTS_DEAD, lag.dead_in_ledger)
    meter.add(metrics.AUTH_CLUSTERS_GROWING, growing)
    meter.add(metrics.AUTH_CLUSTERS_NEW, new)
