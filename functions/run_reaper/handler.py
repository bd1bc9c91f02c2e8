"""The reaper: fails the runs whose worker vanished (RUN-20). Runs every half minute."""

from functools import cache
from typing import Any

from dpp.money.ledger import Ledger
from dpp.platform.config import PostgresSettings, RedisSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.scheduled_job import scheduled_job
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reap import reap

logger = service_logger("reaper")
meter = Meter()


class RunReaperSettings(PostgresSettings, RedisSettings):
    """Rows and budgets."""


@cache
def wiring() -> tuple[FinalizeEffects, Database]:
    """The connections that end runs, and a second database connection for the scan."""
    settings = RunReaperSettings.load()
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    return FinalizeEffects(Database(settings.database), ledger), Database(settings.database)


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = reap(*wiring())
    meter.scanned("expired_leases", report)
    return report.as_dict()
