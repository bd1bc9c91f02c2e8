"""Building blocks of operations: responses, problems, headers, parameters."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from dpp.platform.http import problem
from dpp.platform.http.problem import ProblemDocument, ProblemKind
from dpp.platform.ids import TRACE_ID_PATTERN

type Json = dict[str, Any]

REF = "#/components/schemas/"
OF_ANY_CALL = (problem.METHOD_NOT_ALLOWED, problem.INTERNAL_ERROR)
_OF_ANY_OPERATION = (problem.MALFORMED_REQUEST, problem.DEPENDENCY_UNAVAILABLE, *OF_ANY_CALL)
OF_ANY_BODY = (problem.PAYLOAD_TOO_LARGE, problem.UNSUPPORTED_MEDIA_TYPE, problem.VALIDATION_FAILED)
_BODY = (
    "At most {max_mib} MiB of JSON in UTF-8, at most 64 levels deep, without duplicate names in an object,"
    " NUL, lone surrogates or integers beyond 2^53 - 1."
)
_KEY = r"^([!#-\[\]-~]{8,64}|\"[!#-\[\]-~]{8,64}\")$"
_OF_ANY_ANSWER = ("Cache-Control", "X-Content-Type-Options")
RATE_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit", "RateLimit-Policy")
COST_HEADERS = ("X-DPP-Cost-Reserved", "X-DPP-Cost-Used", "X-DPP-Budget-Remaining", "X-DPP-Tokens-Consumed")
_MAYBE = ".maybe"
MEANINGS: Mapping[str, str] = {
    "run_id": "The run id from the receipt.",
    "workspace_id": "The workspace id from its creation.",
    "request_id": "The request id with which the ticket was filed.",
    "auth_error_id": "The error id from its receipt.",
    "cluster_id": "The cluster id from one of its errors.",
    "name": "The snapshot's name from a report's `evidence_refs`.",
    "status": "Only items with this status.",
    "phase": "Only workspaces in this phase.",
    "request_type": "Only tickets of this type.",
    "exceptionClass": "Only errors of this exception class.",
    "clusterId": "Only errors of this cluster.",
    "occurredSince": "Only errors from this time on.",
    "occurredBefore": "Only errors before this time.",
    "limit": "How many a page has.",
    "cursor": "The cursor from the previous page; omit it for the first page.",
}
"""Descriptions of path and query parameters by name."""
_NAMES = re.compile(r"\{(\w+)\}")
_HEADERS_OF_STATUS: Mapping[int, tuple[str, ...]] = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    429: ("Retry-After", *RATE_HEADERS),
    503: ("Retry-After",),
}


@dataclass(frozen=True)
class Family:
    """Builds operations whose responses all have the headers `always`.

    `texts`: descriptions of problems whose title is not enough; `members`: their additional members. `of_status`: the
    headers that a status has in this family, besides those that it has everywhere. `in_path`: examples of the parts of
    paths. `security`: the key that operations need unless they say otherwise. `answers` collects the models of the
    responses.
    """

    always: tuple[str, ...]
    texts: Mapping[ProblemKind, str]
    members: Mapping[ProblemKind, Mapping[str, str | int]] = field(default_factory=dict)
    of_status: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    in_path: Mapping[str, str] = field(default_factory=dict)
    security: str | None = "operatorKey"
    answers: dict[type[BaseModel], None] = field(default_factory=dict)

    @property
    def names_of_all(self) -> tuple[str, ...]:
        """Return the headers of every response."""
        return (*self.always, *_OF_ANY_ANSWER)

    def answer(
        self, description: str, model: type[BaseModel] | str, example: Json, headers: Sequence[str] = ()
    ) -> Json:
        """Describe a response with a JSON body and `headers`; `model`: of the body, or the name of its schema."""
        return self._answer(description, headers, model, {"example": example})

    def answer_of_several(self, description: str, model: type[BaseModel], examples: Mapping[str, Json]) -> Json:
        """Describe a response with several named examples."""
        return self._answer(description, (), model, _shown(examples))

    def problems(self, kinds: Sequence[ProblemKind], path: str) -> Json:
        """Describe the problem responses by status, with an example of each kind for the request path `path`."""
        by_status: dict[int, list[ProblemKind]] = {}
        for kind in kinds:
            by_status.setdefault(kind.status, []).append(kind)
        return {str(status): self._problem(by_status[status], path) for status in sorted(by_status)}

    def operation(
        self,
        route: str,
        operation_id: str,
        summary: str,
        description: str,
        answers: Json,
        *problems: ProblemKind,
        parameters: Sequence[Json] = (),
        body: Json | None = None,
        security: str | None = "",
    ) -> Json:
        """Describe one operation, such as `GET /api/tickets/{request_id}`, by path and method.

        `problems`: its own; those that any operation may have are added. `security`: another key than the family's.
        """
        method, _, path = route.partition(" ")
        key = self.security if security == "" else security
        of_a_key = () if key is None else (problem.AUTH_INVALID,)
        found = self.problems((*_OF_ANY_OPERATION, *of_a_key, *problems), path.format(**self.in_path))
        described = operation(
            operation_id,
            summary,
            description,
            parameters=(*(in_path(name, self.in_path[name]) for name in _NAMES.findall(path)), *parameters),
            responses=answers | found,
            security=key,
        )
        return {path: {method.lower(): described | ({} if body is None else {"requestBody": body})}}

    def _answer(self, description: str, headers: Sequence[str], model: type[BaseModel] | str, shown: Json) -> Json:
        if isinstance(model, str):
            name = model
        else:
            name = model.__name__
            self.answers[model] = None
        return {
            "description": description,
            "headers": header_refs((*self.names_of_all, *headers)),
            "content": {"application/json": {"schema": {"$ref": REF + name}, **shown}},
        }

    def _problem(self, kinds: Sequence[ProblemKind], path: str) -> Json:
        status = kinds[0].status
        headers = (*self.names_of_all, *_HEADERS_OF_STATUS.get(status, ()), *self.of_status.get(status, ()))
        schema = {"allOf": [{"$ref": REF + "Problem"}, {"properties": {"status": {"const": status}}}]}
        examples = {kind.reason_code: {"value": self._example(kind, path)} for kind in kinds}
        titles = dict.fromkeys(kind.title for kind in kinds)
        return {
            "description": "; ".join(titles) + ".",
            "headers": header_refs(headers),
            "content": {problem.CONTENT_TYPE: {"schema": schema, "examples": examples}},
        }

    def _example(self, kind: ProblemKind, path: str) -> Any:
        detail = self.texts.get(kind, kind.title + ".")
        members = self.members.get(kind, {})
        document = ProblemDocument(kind, detail, path, "t_6a0c1c6b1b6f4b0f", members=members)
        return json.loads(document.to_json())


def operation(
    operation_id: str,
    summary: str,
    description: str,
    *,
    parameters: Sequence[Json],
    responses: Json,
    security: str | None,
) -> Json:
    """Describe one operation, with or without an API key."""
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "security": [] if security is None else [{security: []}],
        "parameters": [*parameters, trace_id()],
        "responses": responses,
    }


def in_header(name: str, description: str, example: str, pattern: str, *, required: bool = True) -> Json:
    """Describe a request header."""
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string", "pattern": pattern},
        "example": example,
    }


def in_path(name: str, example: str) -> Json:
    """A part of the path: a UUID, unless it is the `name` of something."""
    schema = {"type": "string"} if name == "name" else {"type": "string", "format": "uuid"}
    meaning = MEANINGS[name]
    return {"name": name, "in": "path", "required": True, "description": meaning, "schema": schema, "example": example}


def by_path(*operations: Json) -> Json:
    """Collect operations by path, then by method."""
    paths: Json = {}
    for one in operations:
        for path, methods in one.items():
            paths.setdefault(path, {}).update(methods)
    return paths


def texts_of(problems: Mapping[type[Exception], ProblemKind]) -> dict[ProblemKind, str]:
    """The first line of each error's docstring, by the problem that it becomes."""
    return {kind: (error.__doc__ or "").partition("\n")[0] for error, kind in problems.items()}


def idempotency_key(example: str, what_it_answers: str) -> Json:
    """Describe the header that makes a POST safe to repeat."""
    described = "8 to 64 visible ASCII characters without quote and backslash, bare or as a quoted string."
    return in_header("Idempotency-Key", f"{described} {what_it_answers}", example, _KEY)


def sent(schema: str, examples: Mapping[str, Any], *, required: bool = True, max_mib: int = 1) -> Json:
    """Describe a request body."""
    content = {"application/json": {"schema": {"$ref": REF + schema}, **_shown(examples)}}
    return {"description": _BODY.format(max_mib=max_mib), "required": required, "content": content}


def _shown(examples: Mapping[str, Any]) -> Json:
    return {"examples": {name: {"value": value} for name, value in examples.items()}}


def trace_id() -> Json:
    """Describe the header that every operation accepts."""
    return {
        "name": "X-Trace-Id",
        "in": "header",
        "required": False,
        "description": (
            f"Returned in the response if it matches `{TRACE_ID_PATTERN}`; otherwise a new one is generated."
        ),
        "schema": {"type": "string"},
        "example": "t_order-2026-0001",
    }


def maybe(names: Sequence[str]) -> tuple[str, ...]:
    """Mark headers as optional for a status."""
    return tuple(name + _MAYBE for name in names)


def header_refs(names: Sequence[str]) -> Json:
    """Refer to header components by name; optional ones have a suffix."""
    return {name.removesuffix(_MAYBE): {"$ref": f"#/components/headers/{name}"} for name in names}


PROBLEM: Json = {
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "reason_code", "trace_id"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string", "format": "uri-reference", "description": "The request's path."},
        "reason_code": {"type": "string", "pattern": "^[A-Z0-9_]+$", "description": "Decide by this."},
        "trace_id": {"type": "string"},
        "run_id": {"type": "string", "format": "uuid", "description": "The run id, if known."},
        "actor": {"type": "string", "description": "REAPER_RUNNING: who started it; EMERGENCY_STOP_SET: who set it."},
        "current_status": {"type": "string", "description": "DECISION_REFUSED: the error's status."},
        "limit": {"type": "integer", "description": "TOO_MANY_WORKSPACES: the maximum number."},
        "operation": {"type": "string", "description": "WORKSPACE_NOT_DELETABLE: the operation in progress, or NONE."},
        "phase": {"type": "string", "description": "WORKSPACE_NOT_DELETABLE: the workspace's phase."},
        "started_at": {"type": "string", "format": "date-time", "description": "REAPER_RUNNING: when it started."},
        "errors": {
            "description": "422: the invalid fields, at most 20.",
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "detail"],
                "properties": {"pointer": {"type": "string", "format": "json-pointer"}, "detail": {"type": "string"}},
            },
        },
    },
}
