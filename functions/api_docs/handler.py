"""GET and HEAD /openapi.json and /docs: the API's description, for machines and for people.

This is a function of its own and not part of `health`: it serves hundreds of kilobytes to anybody without a key, so it
has no variable, no secret, no grant and no network, and heavy use of it cannot stop a health probe. It starts without
psycopg, redis and boto3: 141 ms of processor time, where `health` takes 236 ms, and 379 ms with what its first probe
imports (`python -m bench.cold 15 api_docs health`, two cores of a Xeon).
"""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from aws_lambda_powertools.event_handler import Response

from dpp.platform.config import Settings
from dpp.platform.http.api import Api
from dpp.platform.http.cacheable import Content
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api({}, lambda _error: {}, meter)
PACKAGE = "dpp_api_docs"
"""The layer's folder (`dpp_cli/layers/api_docs.py`); Python finds it on its path, wherever a layer is unpacked."""


class ApiDocsSettings(Settings):
    """No variable: everything that it serves is in its layer."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The document, the page, and the page's Content-Security-Policy."""

    document: Content
    page: Content
    page_policy: str


@cache
def wiring() -> Wiring:
    """Read the layer. Raises FileNotFoundError if the function has none."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(PACKAGE)
    folder = Path(next(iter(spec.submodule_search_locations)))

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    return Wiring(
        document=Content.of("application/json", read("openapi.json")),
        page=Content.of("text/html; charset=utf-8", read("docs.html")),
        page_policy=read("docs.policy"),
    )


@api.route("HEAD", "/openapi.json")
@api.route("GET", "/openapi.json")
def openapi() -> Response[str]:
    """docs/openapi.json without its whitespace."""
    return api.cacheable(wiring().document, {})


@api.route("HEAD", "/docs")
@api.route("GET", "/docs")
def docs() -> Response[str]:
    """The same document as a page that runs no script and loads nothing."""
    headers = {
        "Content-Security-Policy": wiring().page_policy,
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    return api.cacheable(wiring().page, headers)


handler = invocation(logger, meter)(api.answer)
