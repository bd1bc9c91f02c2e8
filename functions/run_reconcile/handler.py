"""Reconcile, on its schedule: finish what a crash left half done (RUN-22, D3, D5)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import (
    FIRINGS,
    LEDGER_DRIFT_USD_MICROS,
    LEDGERS_DISPUTED,
    RUNS_DISPUTED,
    STUCK_CLAIMS,
)
from dpp.runs.jobs.reconcile import reconcile
from run_reconcile.wiring import wiring

logger = service_logger("reconcile")
meter = Meter()


@invocation(logger, meter)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    report = reconcile(parts.effects, parts.scan)
    meter.add(FIRINGS)
    for scan, done in report.scans.items():
        meter.scanned(scan, done)
    meter.add(LEDGER_DRIFT_USD_MICROS, report.audits.drift_usd_micros)
    meter.add(LEDGERS_DISPUTED, report.audits.disputed)
    meter.add(RUNS_DISPUTED, report.unresolved.disputed_runs)
    meter.add(STUCK_CLAIMS, report.unresolved.stuck_claims)
    told = report.as_dict()
    logger.info("fired", extra={"report": told})
    return told
