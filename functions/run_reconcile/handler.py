"""Reconcile, on its schedule: finish what a crash left half done (RUN-22, D3, D5)."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.logging import service_logger
from dpp.runs.reconcile import reconcile
from run_reconcile.wiring import wiring

logger = service_logger("reconcile")


@logger.inject_lambda_context(clear_state=True)
def handler(_event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """One firing; what the event holds doesn't matter."""
    parts = wiring()
    report = reconcile(parts.effects, parts.scan).as_dict()
    logger.info("fired", extra={"report": report})
    return report
