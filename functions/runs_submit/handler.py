"""POST /v1/runs: accept a run (RUN-2)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import SUBMITS
from dpp.runs.api.http import read_order, receipt
from dpp.runs.api.problems import PROBLEMS, error_headers
from dpp.runs.submit import submit
from runs_submit.wiring import wiring

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("POST", "/v1/runs")
def submit_run() -> Response[str]:
    """Reserve, insert, enqueue; 202 with the receipt, the same one at every repetition."""
    effects = wiring()
    caller = authenticate(api.event, effects.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    order = read_order(api.event, api.trace_id, caller.tenant_id)
    api.adopt_trace_id(order.trace_id)
    logger.append_keys(trace_id=order.trace_id)
    accepted = submit(order, caller, effects)
    meter.add(SUBMITS, Answer=accepted.outcome)
    return api.json(202, receipt(accepted.run), accepted.headers())


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
