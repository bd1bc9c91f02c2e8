"""The OpenAPI 3.1 document of the HTTP API, made from the models that the functions use.

    python -m dpp_cli.openapi        writes docs/openapi.json

Schemas come from dpp/runs/contract.py and dpp/packs/registry.py, problems from the tables that answer them.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from dpp.packs.registry import INPUT_MODELS
from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemDocument, ProblemKind
from dpp.platform.ids import TRACE_ID_PATTERN
from dpp.runs.contract import RunCreateRequest, RunReceipt, RunView
from dpp.runs.errors import RunsError
from dpp.runs.http import PROBLEMS
from dpp_cli import openapi_examples
from dpp_cli.paths import ROOT

type Json = dict[str, Any]

DOCUMENT = ROOT / "docs" / "openapi.json"
_REF = "#/components/schemas/"
_KEY = r"^([!#-\[\]-~]{8,64}|\"[!#-\[\]-~]{8,64}\")$"
_SOURCE = re.compile(r"\s*\((?:RUN|DEC|D|001)[-\s]?[\d§][^)]*\)")  # where a rule comes from is our business
_COST_HEADERS = (
    "X-DPP-Cost-Reserved",
    "X-DPP-Cost-Used",
    "X-DPP-Budget-Remaining",
    "X-DPP-Tokens-Consumed",
)
_RATE_HEADERS = (
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "RateLimit",
    "RateLimit-Policy",
)
_ALWAYS = (*_COST_HEADERS, "X-Trace-Id")
_HEADERS_OF_STATUS: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    409: ("Retry-After",),
    429: ("Retry-After", *_RATE_HEADERS),
    503: ("Retry-After",),
}
_ERROR_TEXTS: Mapping[ProblemKind, str] = {
    kind: (error.__doc__ or "").partition("\n")[0]
    for error, kind in PROBLEMS.items()
    if issubclass(error, RunsError)
}
_OF_RUNS = {kind.reason_code: kind for kind in PROBLEMS.values()}
_OF_ANY_CALL = (problem.METHOD_NOT_ALLOWED, problem.INTERNAL_ERROR)
_SUBMIT_PROBLEMS = (
    problem.MALFORMED_REQUEST,
    problem.AUTH_INVALID,
    _OF_RUNS["BUDGET_DRAINED"],
    _OF_RUNS["IDEMPOTENCY_CONFLICT"],
    _OF_RUNS["IDEMPOTENCY_IN_PROGRESS"],
    problem.PAYLOAD_TOO_LARGE,
    problem.UNSUPPORTED_MEDIA_TYPE,
    problem.VALIDATION_FAILED,
    _OF_RUNS["PACK_NOT_AVAILABLE"],
    _OF_RUNS["RATE_LIMITED"],
    problem.DEPENDENCY_UNAVAILABLE,
    _OF_RUNS["QUEUE_ENQUEUE_FAILED"],
    _OF_RUNS["EXECUTION_DISABLED"],
    *_OF_ANY_CALL,
)
_READ_PROBLEMS = (
    problem.MALFORMED_REQUEST,
    problem.AUTH_INVALID,
    problem.NOT_FOUND,
    _OF_RUNS["RUN_EXPIRED"],
    _OF_RUNS["RATE_LIMITED"],
    problem.DEPENDENCY_UNAVAILABLE,
    *_OF_ANY_CALL,
)


def document() -> Json:
    """The whole document; the same code makes the same text."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DPP",
            "version": "1.0.0",
            "description": (
                "Metered runs: submit one with a maximum price, poll it, fetch its result. Every answer says in"
                " its `X-DPP-*` headers what was reserved, used and is left. Every error is a problem document"
                " (RFC 9457); decide by `reason_code`."
            ),
        },
        "servers": [{"url": "/"}],
        "security": [{"apiKey": []}],
        "paths": {
            "/v1/runs": {"post": _submit()},
            "/v1/runs/{run_id}": {"get": _read()},
            "/healthz": {"get": _healthz()},
            "/readyz": {"get": _readyz()},
        },
        "components": {
            "securitySchemes": {
                "apiKey": {"type": "http", "scheme": "bearer", "description": "`dpp_<key id>_<secret>`"}
            },
            "headers": _headers(),
            "schemas": _schemas(),
        },
    }


def as_text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def write(path: Path = DOCUMENT) -> None:
    """Write the document where it is committed."""
    path.write_text(as_text(), encoding="utf-8")


def _submit() -> Json:
    key: Json = {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": (
            "8 to 64 visible ASCII characters without quote and backslash, bare or as a quoted string. The same"
            " key with the same payload answers the first receipt, for 30 days."
        ),
        "schema": {"type": "string", "pattern": _KEY},
        "example": openapi_examples.KEY,
    }
    headers = (*_ALWAYS, *_RATE_HEADERS, "Idempotent-Replayed")
    accepted = _answer(
        "Accepted, or accepted before with this key.", headers, "RunReceipt", openapi_examples.RECEIPT
    )
    return {
        "operationId": "submitRun",
        "summary": "Submit a run",
        "description": "Reserves `max_cost_usd`, queues the run and answers where to poll for it.",
        "parameters": [key, _trace_id()],
        "requestBody": {
            "description": (
                "At most 1 MiB of JSON in UTF-8, at most 64 levels deep, without a name twice in an object,"
                " NUL, lone surrogates or integers beyond 2^53 - 1."
            ),
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": _REF + "RunCreateRequest"},
                    "examples": {name: {"value": value} for name, value in openapi_examples.REQUESTS.items()},
                }
            },
        },
        "responses": {"202": accepted, **_problems(_SUBMIT_PROBLEMS, "/v1/runs")},
    }


def _read() -> Json:
    run_id: Json = {
        "name": "run_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "format": "uuid"},
        "example": openapi_examples.RUN_ID,
    }
    found = _answer("The run as it stands.", (*_ALWAYS, *_RATE_HEADERS), "RunView", openapi_examples.VIEW)
    return {
        "operationId": "readRun",
        "summary": "Poll a run",
        "description": "What is not yours does not exist: an unknown, a foreign and a malformed id are the same 404.",
        "parameters": [run_id, _trace_id()],
        "responses": {"200": found, **_problems(_READ_PROBLEMS, f"/v1/runs/{openapi_examples.RUN_ID}")},
    }


def _healthz() -> Json:
    return {
        "operationId": "healthz",
        "summary": "Whether the API runs",
        "security": [],
        "responses": {
            "200": _answer("It runs.", _ALWAYS, "Health", {"status": "ok"}),
            **_problems(_OF_ANY_CALL, "/healthz"),
        },
    }


def _readyz() -> Json:
    ready = dict.fromkeys(("postgres", "redis", "s3", "sqs"), "ok")
    lost = {"status": "unavailable", "checks": ready | {"redis": "unavailable"}}
    return {
        "operationId": "readyz",
        "summary": "Whether what the API depends on answers",
        "security": [],
        "responses": {
            "200": _answer("All of it answers.", _ALWAYS, "Readiness", {"status": "ok", "checks": ready}),
            "503": _answer("Something does not answer.", _ALWAYS, "Readiness", lost),
            **_problems(_OF_ANY_CALL, "/readyz"),
        },
    }


def _trace_id() -> Json:
    return {
        "name": "X-Trace-Id",
        "in": "header",
        "required": False,
        "description": "Comes back in the answer; one is made where it is missing or unfit.",
        "schema": {"type": "string", "pattern": f"^{TRACE_ID_PATTERN}$"},
    }


def _answer(description: str, headers: Sequence[str], schema: str, example: Json) -> Json:
    content = {"application/json": {"schema": {"$ref": _REF + schema}, "example": example}}
    return {"description": description, "headers": _header_refs(headers), "content": content}


def _problems(kinds: Sequence[ProblemKind], path: str) -> Json:
    by_status: dict[int, list[ProblemKind]] = {}
    for kind in kinds:
        by_status.setdefault(kind.status, []).append(kind)
    return {str(status): _problem_answer(by_status[status], path) for status in sorted(by_status)}


def _problem_answer(kinds: Sequence[ProblemKind], path: str) -> Json:
    status = kinds[0].status
    headers = (*_ALWAYS, *_HEADERS_OF_STATUS.get(status, ()))
    schema = {"allOf": [{"$ref": _REF + "Problem"}, {"properties": {"status": {"const": status}}}]}
    examples = {kind.reason_code: {"value": _problem_example(kind, path)} for kind in kinds}
    return {
        "description": "; ".join(kind.title for kind in kinds) + ".",
        "headers": _header_refs(headers),
        "content": {problem.CONTENT_TYPE: {"schema": schema, "examples": examples}},
    }


def _problem_example(kind: ProblemKind, path: str) -> Any:
    detail = _ERROR_TEXTS.get(kind, kind.title + ".")
    return json.loads(ProblemDocument(kind, detail, path, "t_6a0c1c6b1b6f4b0f").to_json())


def _header_refs(names: Sequence[str]) -> Json:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _headers() -> Json:
    usd = {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{4}$"}
    count = {"type": "integer", "minimum": 0}
    described: dict[str, tuple[str, Json]] = {
        "X-DPP-Cost-Reserved": ("US dollars reserved for the run.", usd),
        "X-DPP-Cost-Used": ("US dollars charged for the run.", usd),
        "X-DPP-Budget-Remaining": ("US dollars that are left to reserve.", usd),
        "X-DPP-Tokens-Consumed": ("Tokens the run consumed.", count),
        "X-Trace-Id": ("The request's trace id.", {"type": "string"}),
        "X-RateLimit-Limit": ("Requests a minute.", count),
        "X-RateLimit-Remaining": ("Requests left now.", count),
        "X-RateLimit-Reset": ("Seconds until all of them are back.", count),
        "RateLimit": ("The same, as the IETF draft writes it.", {"type": "string"}),
        "RateLimit-Policy": ("The limit, as the IETF draft writes it.", {"type": "string"}),
        "Idempotent-Replayed": (
            "Whether the receipt is of an earlier request.",
            {"type": "string", "enum": ["true", "false"]},
        ),
        "Retry-After": ("Seconds to wait before the next try.", count),
        "WWW-Authenticate": ("How to authenticate.", {"type": "string"}),
        "Allow": ("The methods that are offered.", {"type": "string"}),
    }
    # A busy key is a 409 that asks to come back, a conflict is one that does not; nothing else is now and then.
    return {
        name: {"description": text, "required": name != "Retry-After", "schema": schema}
        for name, (text, schema) in described.items()
    }


def _schemas() -> Json:
    requests = [(RunCreateRequest, "validation"), *((model, "validation") for model in INPUT_MODELS.values())]
    answers = [(RunReceipt, "serialization"), (RunView, "serialization")]
    _, sent = models_json_schema(requests, ref_template=_REF + "{model}")  # type: ignore[arg-type]
    _, received = models_json_schema(answers, ref_template=_REF + "{model}")  # type: ignore[arg-type]
    schemas: Json = {name: _without_nulls(schema) for name, schema in received["$defs"].items()}
    schemas |= sent["$defs"]
    schemas |= _one_request_a_pack(schemas["RunCreateRequest"])
    schemas |= {"Problem": _PROBLEM, "Health": _HEALTH, "Readiness": _READINESS}
    return {name: _for_readers(schemas[name]) for name in sorted(schemas)}


def _one_request_a_pack(general: Json) -> Json:
    """`RunCreateRequest` as one of the packs that are here, told apart by `pack_type`."""
    made: Json = {}
    mapping: dict[str, str] = {}
    for pack, model in INPUT_MODELS.items():
        name = f"{pack.value.title()}RunCreateRequest"
        properties = general["properties"] | {
            "pack_type": {"const": pack.value, "type": "string"},
            "inputs": {"$ref": _REF + model.__name__},
        }
        made[name] = general | {"properties": properties, "title": name}
        mapping[pack.value] = _REF + name
    return made | {
        "RunCreateRequest": {
            "description": "The body of a submit; `inputs` are its pack's.",
            "oneOf": [{"$ref": ref} for ref in mapping.values()],
            "discriminator": {"propertyName": "pack_type", "mapping": mapping},
        }
    }


def _without_nulls(schema: Json) -> Json:
    """An answer's schema as it goes out: an empty member is left out, every other is there."""
    properties: Json = {}
    required: list[str] = []
    for name, member in schema.get("properties", {}).items():
        branches = [branch for branch in member.get("anyOf", ()) if branch.get("type") != "null"]
        plain = {key: value for key, value in member.items() if key not in {"anyOf", "default"}}
        properties[name] = plain | branches[0] if branches else plain
        if not branches:
            required.append(name)
    return schema | {"properties": properties, "required": required} if properties else schema


def _for_readers(node: Any) -> Any:
    """Without pydantic's titles and the marks of our own requirements."""
    if isinstance(node, list):
        return [_for_readers(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {name: _for_readers(value) for name, value in node.items() if not _is_title(name, value)}
    if isinstance(cleaned.get("description"), str):
        cleaned["description"] = _SOURCE.sub("", cleaned["description"])
    return cleaned


def _is_title(name: str, value: object) -> bool:
    return name == "title" and isinstance(value, str)


_PROBLEM: Json = {
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "reason_code", "trace_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string", "format": "uri-reference", "description": "The path of the request."},
        "reason_code": {"type": "string", "pattern": "^[A-Z0-9_]+$", "description": "Decide by this."},
        "trace_id": {"type": "string"},
        "run_id": {"type": "string", "format": "uuid", "description": "The run, where one is known."},
        "errors": {
            "description": "Of a 422: each place that breaks the schema, at most 20.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {
                    "pointer": {"type": "string", "format": "json-pointer"},
                    "detail": {"type": "string"},
                },
            },
        },
    },
}
_CHECK: Json = {"type": "string", "enum": ["ok", "unavailable"]}
_HEALTH: Json = {"type": "object", "required": ["status"], "properties": {"status": {"const": "ok"}}}
_READINESS: Json = {
    "type": "object",
    "required": ["status", "checks"],
    "properties": {"status": _CHECK, "checks": {"type": "object", "additionalProperties": _CHECK}},
}


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{DOCUMENT.relative_to(ROOT)} written\n")
