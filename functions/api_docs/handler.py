"""GET and HEAD /openapi.json and /docs: the API's description, for machines and for people.

A function of its own and not a part of `health`: it answers anybody, without a key, with hundreds of kilobytes, so it
has no variable, no secret, no grant and no way into the network, and calling it a lot stops no probe. It starts without
psycopg, redis and boto3: 141 ms of processor time against 236, and 379 with what the first probe waits for (`python -m
bench.cold 15 api_docs health`, two cores of a Xeon).
"""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from api_docs.wiring import wiring
from dpp.platform.http.api import Api
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api({}, lambda _error: {}, meter)


@api.route("HEAD", "/openapi.json")
@api.route("GET", "/openapi.json")
def openapi() -> Response[str]:
    """The document, as docs/openapi.json is committed, without its blanks."""
    return api.kept(wiring().document, {})


@api.route("HEAD", "/docs")
@api.route("GET", "/docs")
def docs() -> Response[str]:
    """The same as a page, which runs nothing and asks nobody."""
    headers = {
        "Content-Security-Policy": wiring().page_policy,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    return api.kept(wiring().page, headers)


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
