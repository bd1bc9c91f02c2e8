"""Headers of the API's responses."""

from collections.abc import Mapping

from dpp_cli.docs.openapi.parts import COST_HEADERS, RATE_HEADERS, Json, maybe

_USD: Json = {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{4}$"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_TEXT: Json = {"type": "string"}
_REFERENCE: Json = {"type": "string", "format": "uri-reference"}
_DESCRIBED: Mapping[str, tuple[str, Json]] = {
    "X-DPP-Cost-Reserved": ("US dollars reserved for the run.", _USD),
    "X-DPP-Cost-Used": ("US dollars charged for the run.", _USD),
    "X-DPP-Budget-Remaining": ("US dollars left to reserve.", _USD),
    "X-DPP-Tokens-Consumed": ("Tokens the run consumed.", _COUNT),
    "X-Trace-Id": ("The request's trace id.", _TEXT),
    "Cache-Control": ("`no-store`, except for content that is the same for all clients.", _TEXT),
    "X-Content-Type-Options": ("Browsers must not guess another content type.", {"const": "nosniff"}),
    "ETag": ("The content's entity tag, for `If-None-Match`.", {"type": "string", "pattern": '^"[0-9a-f]{32}"$'}),
    "Content-Security-Policy": ("The page may load only its own style.", _TEXT),
    "Referrer-Policy": ("Links do not send a referrer.", {"const": "no-referrer"}),
    "X-Frame-Options": ("The page must not be framed.", {"const": "DENY"}),
    "X-RateLimit-Limit": ("Requests a minute.", _COUNT),
    "X-RateLimit-Remaining": ("Requests left now.", _COUNT),
    "X-RateLimit-Reset": ("Seconds until the bucket is full again.", _COUNT),
    "RateLimit": ("The same in the IETF draft's format.", _TEXT),
    "RateLimit-Policy": ("The limit in the IETF draft's format.", _TEXT),
    "Idempotent-Replayed": (
        "`true` if the receipt belongs to an earlier request.",
        {"type": "string", "enum": ["true", "false"]},
    ),
    "Retry-After": ("Seconds to wait before the next attempt.", _COUNT),
    "WWW-Authenticate": ("How to authenticate.", _TEXT),
    "Allow": ("The allowed methods.", _TEXT),
    "Location": ("The created resource, relative to the request's path.", _REFERENCE),
    "Content-Location": ("The report's snapshot, relative to the path of the request.", _REFERENCE),
    "X-DPP-Reaper-Breaker": (
        "TRIPPED: too many tickets are stale; none is ended without confirmation.",
        {"type": "string", "enum": ["CLOSED", "TRIPPED"]},
    ),
    "SnapshotLocation": ("The report's snapshot, relative to the path of the request; a dry run has none.", _REFERENCE),
}
# A busy key is a 409 that asks to come back, a conflict is one that does not; a dry run leaves no snapshot.
_NOW_AND_THEN = {"Retry-After", "SnapshotLocation"}


def headers() -> Json:
    """Return the header components, named like the headers."""
    made = {
        name: {"description": text, "required": name not in _NOW_AND_THEN, "schema": schema}
        for name, (text, schema) in _DESCRIBED.items()
    }
    twice = (*COST_HEADERS, *RATE_HEADERS)
    return made | {called: made[name] | {"required": False} for name, called in zip(twice, maybe(twice), strict=True)}
