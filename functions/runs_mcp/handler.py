"""POST /mcp: runs as tools of a model, by the Model Context Protocol (RUN-33)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from collections.abc import Mapping
from functools import partial
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext
from mcp_types import Implementation

from dpp.platform.errors import DependencyUnavailable
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.http.problem import ProblemError
from dpp.platform.http.request import refuse_browsers
from dpp.platform.keys.api_keys import Caller
from dpp.platform.mcp.server import Called, Server
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import SUBMITS
from dpp.runs.api.problems import PROBLEMS, error_headers
from dpp.runs.api.tool_schemas import INSTRUCTIONS
from dpp.runs.api.tools import TOOLS, listed, order_of_call, receipt_result, refused_result
from dpp.runs.errors import RunsError
from dpp.runs.submit import submit
from runs_mcp.wiring import wiring

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)
server = Server(Implementation(name="dpp", title="DPP", version="1.0.0"), INSTRUCTIONS, tuple(TOOLS), listed)


@api.route("POST", "/mcp")
def message() -> Response[str]:
    """One message of a client's, answered; what is refused before it is read is a problem, as everywhere."""
    refuse_browsers(api.event)
    caller = authenticate(api.event, wiring().database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    reply = server.reply(api.event, partial(_call, caller))
    headers = {**error_headers(None), **reply.headers}  # the cost headers stand on every answer (RUN-13)
    return api.json(reply.status, reply.body, headers) if reply.body else api.empty(reply.status, headers)


def _call(caller: Caller, tool: str, arguments: Mapping[str, Any]) -> Called:
    """Submit a run, as POST /v1/runs does; a refusal is a result, which the model is shown."""
    try:
        order = order_of_call(tool, arguments, api.trace_id, caller.tenant_id)
        accepted = submit(order, caller, wiring())
    except (RunsError, ProblemError, DependencyUnavailable) as error:
        refusal = api.refusal(error)
        return Called(refused_result(refusal.document, refusal.headers), refusal.headers)
    meter.add(SUBMITS, Answer=accepted.outcome)
    return Called(receipt_result(accepted), accepted.headers())


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
