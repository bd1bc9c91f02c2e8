"""POST /v1/runs: accept a run (RUN-2)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.platform.config import StorageSettings
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import SUBMITS
from dpp.runs.api.http import check_baseline, read_request, receipt
from dpp.runs.api.problems import PROBLEMS, error_headers
from dpp.runs.submit import SubmitEffects, SubmitSettings, submit

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


class RunsSubmitSettings(SubmitSettings, StorageSettings):
    """Rows, budgets, the run queue, and the bucket that objects of inputs must be in."""


@cache
def settings() -> RunsSubmitSettings:
    """Read the environment."""
    return RunsSubmitSettings.load()


@cache
def wiring() -> SubmitEffects:
    """Build from the settings; connections open at their first use."""
    return SubmitEffects.connect(settings())


@api.route("POST", "/v1/runs")
def submit_run() -> Response[str]:
    """Reserve, insert, enqueue. 202 with the receipt; a repeated submit gets the same receipt."""
    effects = wiring()
    caller = authenticate(api.event, effects.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    request = read_request(api.event, api.trace_id, caller, settings().results_bucket)
    check_baseline(request, effects.database)
    api.adopt_trace_id(request.trace_id)
    logger.append_keys(trace_id=request.trace_id)
    accepted = submit(request, effects)
    meter.add(SUBMITS, Answer=accepted.outcome)
    return api.json(202, receipt(accepted.run), accepted.headers())


handler = invocation(logger, meter)(api.answer)
