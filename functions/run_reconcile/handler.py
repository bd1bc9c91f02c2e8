"""Reconcile: finishes what a crash interrupted (RUN-22, D3, D5). Runs every minute."""

from functools import cache
from typing import Any

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings, StorageSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import LEDGER_DRIFT_USD_MICROS, LEDGERS_DISPUTED, RUNS_DISPUTED, STUCK_CLAIMS
from dpp.platform.scheduled_job import scheduled_job
from dpp.runs.jobs.reconcile import ReconcileEffects, reconcile

logger = service_logger("reconcile")
meter = Meter()


class RunReconcileSettings(PostgresSettings, RedisSettings, QueueSettings, StorageSettings):
    """Rows, budgets, the run queue (to send lost messages again) and the results bucket."""


@cache
def wiring() -> tuple[ReconcileEffects, Database]:
    """The connections that reconcile uses, and a second database connection for the scans."""
    settings = RunReconcileSettings.load()
    effects = ReconcileEffects(
        database=Database(settings.database),
        ledger=Ledger.connect(settings.redis, cluster=settings.redis_cluster),
        storage=ObjectStore(settings.results_bucket),
        queue=Queue(settings.run_queue_url),
    )
    return effects, Database(settings.database)


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = reconcile(*wiring())
    for scan, done in report.scans.items():
        meter.scanned(scan, done)
    meter.add(LEDGER_DRIFT_USD_MICROS, report.audits.drift_usd_micros)
    meter.add(LEDGERS_DISPUTED, report.audits.disputed)
    meter.add(RUNS_DISPUTED, report.unresolved.disputed_runs)
    meter.add(STUCK_CLAIMS, report.unresolved.stuck_claims)
    return report.as_dict()
