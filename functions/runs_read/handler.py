"""GET /v1/runs/{run_id}: poll a run (RUN-10)."""

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
from dpp.runs.api.http import view
from dpp.runs.api.problems import PROBLEMS, error_headers
from dpp.runs.read import read
from runs_read.wiring import wiring

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route(
    "GET", None
)  # every path that the gateway sends here, so that no id is told apart by its characters
def read_run() -> Response[str]:
    """The run with its costs and, when completed, where its result is."""
    effects = wiring()
    caller = authenticate(api.event, effects.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    found = read(api.path_parameter("run_id"), caller, effects)
    return api.json(200, view(found), {**found.costs.headers(), **found.rate.headers()})


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
