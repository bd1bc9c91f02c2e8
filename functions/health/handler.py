"""GET /healthz and /readyz (RUN-32), and the 404 of every path that no other function serves."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.platform.http.api import Api
from dpp.platform.observability.health import readiness
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.runs.api.problems import PROBLEMS, error_headers
from health.wiring import wiring

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("GET", "/healthz")
def healthz() -> Response[str]:
    """The function runs; nothing else is asked."""
    return api.json(200, {"status": "ok"}, error_headers(None))


@api.route("GET", "/readyz")
def readyz() -> Response[str]:
    """Database, Redis, S3 and SQS answer: 200; else 503 with what didn't."""
    answers = readiness(wiring().probes)
    ready = all(answers.values())
    checks = {name: "ok" if answered else "unavailable" for name, answered in answers.items()}
    body = {"status": "ok" if ready else "unavailable", "checks": checks}
    return api.json(200 if ready else 503, body, error_headers(None))


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
