"""The chamberlain, on his schedule: the day's cleanup where it is due, or on with the one under way (LIFE-8)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.errors import CleanupRunning
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.retention.cleaner import CleanerReport, clean
from dpp.lifecycle.retention.stats import Stats, read_stats
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    CLASSES_GIVEN_UP,
    CLASSES_TRIPPED,
    CLEANUP_AGE,
    CLEANUP_DELETED,
    CLEANUP_ERRORS,
    DATA_BYTES,
    DATA_BYTES_PROJECTED,
    FIRINGS,
    OBJECTS_DELETED,
    OBJECTS_TO_DELETE,
    QUESTIONS_OVERDUE,
    ROLE_SILENCE,
    THREADS_OVERDUE,
)
from lifecycle_chamberlain.wiring import wiring

logger = service_logger("chamberlain")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    effects = wiring().effects
    try:
        done = clean(effects)
    except CleanupRunning as running:
        logger.warning(str(running))
        return {"outcome": "ANOTHER_IS_RUNNING"}
    with effects.database.connection() as connection:
        found = read_stats(connection)
    if effects.announce is not None and done.cleanup is not None and done.cleanup.is_done:
        wiring().wake(Role.ENVOY)
    meter.add(FIRINGS)
    _measure(done)
    _measure_stats(found)
    told = _told(done)
    logger.info("fired", extra={"report": told})
    return told


def _told(done: CleanerReport) -> dict[str, Any]:
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
        meter.add(CLEANUP_DELETED, rows, Class=name)
    meter.add(CLEANUP_ERRORS, done.errors)
    meter.add(OBJECTS_DELETED, done.objects.deleted)
    if done.cleanup is not None and done.cleanup.is_done:
        for use in done.cleanup.usage:
            meter.add(DATA_BYTES, use["bytes"], Class=use["class"])
            meter.add(DATA_BYTES_PROJECTED, use["projected_bytes"], Class=use["class"])


def _measure_stats(found: Stats) -> None:
    if found.cleanup_age_seconds is not None:
        meter.add(CLEANUP_AGE, found.cleanup_age_seconds)
    meter.add(CLASSES_TRIPPED, len(found.tripped))
    meter.add(CLASSES_GIVEN_UP, len(found.failed))
    meter.add(THREADS_OVERDUE, found.overdue_threads)
    meter.add(QUESTIONS_OVERDUE, found.overdue_questions)
    meter.add(OBJECTS_TO_DELETE, found.deletions.objects)
    for role, seconds in found.heartbeat_ages.items():
        meter.add(ROLE_SILENCE, seconds, Role=role)
