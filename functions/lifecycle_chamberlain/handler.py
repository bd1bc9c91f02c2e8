"""The chamberlain (cleaner): starts the day's cleanup when it is due, or continues the current one (LIFE-8).

Runs every minute.
"""

from functools import cache
from typing import Any

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.config import CleanerSettings, StateSettings, WakesEnvoy
from dpp.lifecycle.flow.errors import CleanupRunning
from dpp.lifecycle.flow.ports import Role, Wake
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import CleanerReport, clean
from dpp.lifecycle.retention.control import CleanerEffects
from dpp.lifecycle.retention.daily_report import announce
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.lifecycle.retention.stats import Stats, read_stats
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings, TimeZoneSettings
from dpp.platform.db.postgres import Database
from dpp.platform.observability import metrics
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.scheduled_job import scheduled_job
from dpp.registered import registered

logger = service_logger("chamberlain")
meter = Meter()


class LifecycleChamberlainSettings(
    PostgresSettings, StateSettings, RetentionSettings, RetrySettings, CleanerSettings, TimeZoneSettings, WakesEnvoy
):
    """Rows, the tasks' bucket, the retention periods, the cleanup's limits, the zone of its start at three o'clock,
    and the envoy, where the deployment has one to announce the cleanup."""


@cache
def wiring() -> tuple[CleanerEffects, Wake]:
    """The connections that a cleanup uses, and how to wake the envoy.

    A deployment without the envoy announces nothing: its messages would wait forever.
    """
    settings = LifecycleChamberlainSettings.load()
    effects = CleanerEffects(
        database=Database(settings.database),
        storage=ObjectStore(settings.state_bucket),
        classes=registered(settings.retention, settings.max_retries),
        retention=settings.retention,
        zone=settings.zone,
        bounds=Bounds(settings.max_deletes, settings.breaker_factor, settings.breaker_floor),
        announce=announce if settings.functions else None,
    )
    return effects, WakeByInvocation(settings.functions)


@scheduled_job(logger, meter, already_running=(CleanupRunning,))
def handler() -> dict[str, Any]:
    """Run one tick."""
    effects, wake = wiring()
    done = clean(effects)
    found = effects.database.using(read_stats)
    if effects.announce is not None and done.cleanup is not None and done.cleanup.is_done:
        wake(Role.ENVOY)
    _measure(done)
    _measure_stats(found)
    return _report(done)


def _report(done: CleanerReport) -> dict[str, Any]:
    cleanup = done.cleanup
    return {
        "rows": dict(done.rows),
        "bytes": done.bytes,
        "errors": done.errors,
        "objects_deleted": done.objects.deleted,
        "objects_refused": done.objects.refused,
        "cleanup": None
        if cleanup is None
        else {
            "cleanup_id": str(cleanup.cleanup_id),
            "kind": cleanup.kind,
            "day": cleanup.day.isoformat(),
            "done": cleanup.is_done,
            "deleted": cleanup.deleted,
            "bytes": cleanup.bytes,
            "warnings": list(cleanup.warnings),
        },
    }


def _measure(done: CleanerReport) -> None:
    for name, rows in done.rows.items():
        meter.add(metrics.CLEANUP_DELETED, rows, Class=name)
    meter.add(metrics.CLEANUP_ERRORS, done.errors)
    meter.add(metrics.OBJECTS_DELETED, done.objects.deleted)
    if done.cleanup is not None and done.cleanup.is_done:
        for use in done.cleanup.usage:
            meter.add(metrics.DATA_BYTES, use["bytes"], Class=use["class"])
            meter.add(metrics.DATA_BYTES_PROJECTED, use["projected_bytes"], Class=use["class"])


def _measure_stats(found: Stats) -> None:
    if found.cleanup_age_seconds is not None:
        meter.add(metrics.CLEANUP_AGE, found.cleanup_age_seconds)
    meter.add(metrics.CLASSES_TRIPPED, len(found.tripped))
    meter.add(metrics.CLASSES_GIVEN_UP, len(found.failed))
    meter.add(metrics.THREADS_OVERDUE, found.overdue_threads)
    meter.add(metrics.QUESTIONS_OVERDUE, found.overdue_questions)
    meter.add(metrics.OBJECTS_TO_DELETE, found.deletions.objects)
    for role, seconds in found.heartbeat_ages.items():
        meter.add(metrics.ROLE_SILENCE, seconds, Role=role)
