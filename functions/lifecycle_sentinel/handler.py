"""The sentinel, on his schedule: asks the sources that are due, and takes in what is new (LIFE-1, LIFE-7)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.intake.poller import SourceReport, poll_sources
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import EVENTS_TAKEN_IN, FIRINGS, SOURCE_FAILURES
from lifecycle_sentinel.wiring import wiring

logger = service_logger("lifecycle_sentinel")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    report = poll_sources(wiring())
    meter.add(FIRINGS)
    for one in report.sources:
        _measure(one)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told


def _measure(one: SourceReport) -> None:
    outcomes = {
        "ACCEPTED": one.accepted,
        "DUPLICATE": one.duplicates,
        "TOO_OLD": one.too_old,
        "SKIPPED": one.skipped,
    }
    for outcome, count in outcomes.items():
        meter.add(EVENTS_TAKEN_IN, count, Source=one.source, Outcome=outcome)
    meter.add(SOURCE_FAILURES, one.failures, Source=one.source)
