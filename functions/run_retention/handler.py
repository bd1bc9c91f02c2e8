"""Retention of runs: tombstones after 30 days, inputs deleted after an hour (RUN-12, D7, D8). Runs every minute."""

from functools import cache
from typing import Any

from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import INPUTS_PURGED, RUNS_EXPIRED
from dpp.platform.scheduled_job import scheduled_job
from dpp.runs.jobs.retain import retain

logger = service_logger("retention")
meter = Meter()


class RunRetentionSettings(PostgresSettings):
    """Rows. The bucket's lifecycle rule deletes the objects."""


@cache
def wiring() -> tuple[Database, Database]:
    """A connection for the writes, and a second one for the scan."""
    settings = RunRetentionSettings.load()
    return Database(settings.database), Database(settings.database)


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    done = retain(*wiring())
    meter.scanned("expired", done.expired, RUNS_EXPIRED)
    meter.add(INPUTS_PURGED, done.purged_inputs)
    return {"expired": done.expired.as_dict(), "purged_inputs": done.purged_inputs}
