"""Responses that API Gateway itself may send for any operation (cdk/dpp_cdk/resources/api.py)."""

import json

from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemDocument, ProblemKind
from dpp_cli.docs.openapi.parts import COST_HEADERS, REF, Json, header_refs

_PATH = "/v1/runs"
_REPEAT = "Repeat the request with the same Idempotency-Key."
_ANSWERS: tuple[tuple[str, ProblemKind, str, bool], ...] = (
    ("Refused", problem.REQUEST_REFUSED, "The gateway refused the request.", False),
    ("Throttled", problem.RATE_LIMITED, "Slow down, and try again.", True),
    ("TimedOut", problem.GATEWAY_TIMEOUT, _REPEAT, True),
)
"""Responses by name: status, text, and whether they have `Retry-After`."""


def responses() -> Json:
    """Return the response components. No operation refers to them, since they come without an operation's headers."""
    return {name: _response(kind, detail, waits) for name, kind, detail, waits in _ANSWERS}


def _response(kind: ProblemKind, detail: str, waits: bool) -> Json:
    example = json.loads(ProblemDocument(kind, detail, _PATH, "7c1d9a5e-2f4b-4f0e-9d2a-6b1c3e5f7a90").to_json())
    return {
        "description": f"{kind.title}: of the gateway, before any function or in place of one.",
        "headers": header_refs((*COST_HEADERS, *(("Retry-After",) if waits else ()))),
        "content": {
            problem.CONTENT_TYPE: {
                "schema": {"$ref": REF + "Problem"},
                "examples": {kind.reason_code: {"value": example}},
            }
        },
    }
