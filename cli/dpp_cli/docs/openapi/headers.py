"""Every header that an answer of the API may carry."""

from collections.abc import Mapping

from dpp_cli.docs.openapi.parts import COST_HEADERS, RATE_HEADERS, Json, maybe

_USD: Json = {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{4}$"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TEXT: Json = {"type": "string"}
_REFERENCE: Json = {"type": "string", "format": "uri-reference"}
_DESCRIBED: Mapping[str, tuple[str, Json]] = {
    "X-DPP-Cost-Reserved": ("US dollars reserved for the run.", _USD),
    "X-DPP-Cost-Used": ("US dollars charged for the run.", _USD),
    "X-DPP-Budget-Remaining": ("US dollars that are left to reserve.", _USD),
    "X-DPP-Tokens-Consumed": ("Tokens the run consumed.", _COUNT),
    "X-Trace-Id": ("The request's trace id.", _TEXT),
    "Cache-Control": ("`no-store`, but of what is the same for everybody.", _TEXT),
    "X-Content-Type-Options": ("The body is what its type says.", {"const": "nosniff"}),
    "ETag": (
        "The tag of the content, for `If-None-Match`.",
        {"type": "string", "pattern": '^"[0-9a-f]{32}"$'},
    ),
    "Content-Security-Policy": ("What the page may load: its own style, and nothing else.", _TEXT),
    "Referrer-Policy": ("A link out of the page doesn't say where it stood.", {"const": "no-referrer"}),
    "X-Frame-Options": ("The page stands in no other.", {"const": "DENY"}),
    "X-RateLimit-Limit": ("Requests a minute.", _COUNT),
    "X-RateLimit-Remaining": ("Requests left now.", _COUNT),
    "X-RateLimit-Reset": ("Seconds until all of them are back.", _COUNT),
    "RateLimit": ("The same, as the IETF draft writes it.", _TEXT),
    "RateLimit-Policy": ("The limit, as the IETF draft writes it.", _TEXT),
    "Idempotent-Replayed": (
        "Whether the receipt is of an earlier request.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    "Retry-After": ("Seconds to wait before the next try.", _COUNT),
    "WWW-Authenticate": ("How to authenticate.", _TEXT),
    "Allow": ("The methods that are offered.", _TEXT),
    "Location": ("What was made, relative to the path of the request.", _REFERENCE),
    "Content-Location": ("The report's snapshot, relative to the path of the request.", _REFERENCE),
    "X-DPP-Reaper-Breaker": (
        "TRIPPED: so many are stale that none is ended before that is confirmed.",
        {"type": "string", "enum": ["CLOSED", "TRIPPED"]},
    ),
    "SnapshotLocation": (
        "The report's snapshot, relative to the path of the request; a dry run has none.",
        _REFERENCE,
    ),
}
# A busy key is a 409 that asks to come back, a conflict is one that does not; a dry run leaves no snapshot.
_NOW_AND_THEN = {"Retry-After", "SnapshotLocation"}


def headers() -> Json:
    """The components, which are called as the headers are."""
    made = {
        name: {"description": told, "required": name not in _NOW_AND_THEN, "schema": schema}
        for name, (told, schema) in _DESCRIBED.items()
    }
    twice = (*COST_HEADERS, *RATE_HEADERS)
    return made | {
        called: made[name] | {"required": False} for name, called in zip(twice, maybe(twice), strict=True)
    }
