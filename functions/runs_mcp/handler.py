"""POST /mcp: runs as tools of a model, by the Model Context Protocol (RUN-33)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from aws_lambda_powertools.event_handler import Response
from mcp_types import Implementation

from dpp.platform.config import StorageSettings
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
from dpp.runs.api.tools import TOOLS, list_tools, receipt_result, refused_result, request_of_call
from dpp.runs.errors import RunsError
from dpp.runs.submit import SubmitEffects, SubmitSettings, submit

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)
server = Server(Implementation(name="dpp", title="DPP", version="1.0.0"), INSTRUCTIONS, tuple(TOOLS), list_tools)


class RunsMcpSettings(SubmitSettings, StorageSettings):
    """Rows, budgets, the run queue, and the bucket that objects of inputs must be in: a tool call is a submit."""


@cache
def settings() -> RunsMcpSettings:
    """Read the environment."""
    return RunsMcpSettings.load()


@cache
def wiring() -> SubmitEffects:
    """Build from the settings; connections open at their first use."""
    return SubmitEffects.connect(settings())


@api.route("POST", "/mcp")
def message() -> Response[str]:
    """Answer one message of a client. A request refused before its message is parsed gets a problem document."""
    refuse_browsers(api.event)
    caller = authenticate(api.event, wiring().database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    reply = server.reply(api.event, partial(_call, caller))
    headers = {**error_headers(None), **reply.headers}  # every answer has the cost headers (RUN-13)
    return api.json(reply.status, reply.body, headers) if reply.body else api.empty(reply.status, headers)


def _call(caller: Caller, tool: str, arguments: Mapping[str, Any]) -> Called:
    """Submit a run, as POST /v1/runs does. A refusal is a tool result, so that the model sees it."""
    try:
        request = request_of_call(tool, arguments, api.trace_id, caller, settings().results_bucket)
        accepted = submit(request, wiring())
    except (RunsError, ProblemError, DependencyUnavailable) as error:
        refusal = api.refusal(error)
        return Called(refused_result(refusal.document, refusal.headers), refusal.headers)
    meter.add(SUBMITS, Answer=accepted.outcome)
    return Called(receipt_result(accepted), accepted.headers())


handler = invocation(logger, meter)(api.answer)
