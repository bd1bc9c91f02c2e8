"""Operations that serve the OpenAPI document and its page."""

from dpp.platform.http.cacheable import CACHE_CONTROL
from dpp_cli.docs.openapi.parts import OF_ANY_CALL, REF, Family, Json, header_refs, operation

_FAMILY = Family(always=("X-Trace-Id",), texts={})
_KEPT = ("ETag", "Cache-Control")
_TAG = '"3f1c0f8a5f5e4c1e9b2d7a6c8e0f1a2b"'
_DOCUMENT: Json = {
    "description": "An OpenAPI document: this one.",
    "type": "object",
    "required": ["openapi", "info", "servers", "paths", "components"],
    "properties": {
        "openapi": {"type": "string", "pattern": r"^3\.1\.\d+$"},
        **{name: {"type": "object"} for name in ("info", "paths", "components")},
        "servers": {"type": "array", "items": {"type": "object"}},
    },
}
_SHOWN: Json = {
    "openapi": "3.1.0",
    "info": {"title": "DPP", "version": "1.0.0"},
    "servers": [{"url": "."}],
    "paths": {},
    "components": {},
}


def schemas() -> Json:
    """Return the schemas of responses."""
    return {"Description": _DOCUMENT}


def _read(name: str, what: str, media: str, content: Json, headers: tuple[str, ...]) -> Json:
    """GET and HEAD of one path."""
    names = (*_FAMILY.names_of_all, *_KEPT, *headers)
    known = {"description": "Not modified: `If-None-Match` contains the current tag.", "headers": header_refs(names)}
    found = {"description": f"It is {what}.", "headers": header_refs(names)}
    path = "/openapi.json" if media == "application/json" else "/docs"

    def asked(verb: str, summary: str, found: Json) -> Json:
        return operation(
            verb + name,
            summary,
            f"The same for everybody until the next deployment; clients may keep it (`{CACHE_CONTROL}`) and ask with"
            " its tag whether it still holds.",
            parameters=[
                {
                    "name": "If-None-Match",
                    "in": "header",
                    "required": False,
                    "description": "Entity tags that the client has, or `*`; invalid tags are ignored.",
                    "schema": {"type": "string"},
                    "example": _TAG,
                }
            ],
            responses={"200": found, "304": known, **_FAMILY.problems(OF_ANY_CALL, path)},
            security=None,
        )

    return {
        "get": asked("read", f"Read {what}", found | {"content": {media: content}}),
        "head": asked("look", f"Ask for the tag of {what}", found),
    }


PATHS = {
    "/openapi.json": _read(
        "OpenApi", "this document", "application/json", {"schema": {"$ref": REF + "Description"}, "example": _SHOWN}, ()
    ),
    "/docs": _read(
        "Docs",
        "this document as a page",
        "text/html",
        {"schema": {"type": "string"}, "example": '<!doctype html>\n<html lang="en">…</html>'},
        ("Content-Security-Policy", "Referrer-Policy", "X-Frame-Options"),
    ),
}
