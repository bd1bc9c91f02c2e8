"""The sweeper: refunds runs that waited too long for a worker (RUN-21). Runs every minute."""

from functools import cache
from typing import Any

from dpp.money.ledger import Ledger
from dpp.platform.config import PostgresSettings, RedisSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.scheduled_job import scheduled_job
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.sweep import sweep

logger = service_logger("sweeper")
meter = Meter()


class RunSweeperSettings(PostgresSettings, RedisSettings):
    """Rows and budgets."""


@cache
def wiring() -> tuple[FinalizeEffects, Database]:
    """The connections that end runs, and a second database connection for the scan."""
    settings = RunSweeperSettings.load()
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    return FinalizeEffects(Database(settings.database), ledger), Database(settings.database)


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = sweep(*wiring())
    meter.scanned("waiting", report)
    return report.as_dict()
