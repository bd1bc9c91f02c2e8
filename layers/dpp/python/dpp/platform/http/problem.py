"""Problem details (RFC 9457): the body of every error answer (RUN-9)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

CONTENT_TYPE = "application/problem+json"
_URI_PATH = "/%:@!$&'()*+,;=~"  # allowed in a path; any other character of a client's path is encoded
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")  # a percent sign that encodes nothing (RFC 3986, 2.1)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its status, its machine-readable reason and its constant title."""

    status: int
    reason_code: str
    title: str

    @property
    def type(self) -> str:
        """The problem's URI, one per reason code; documented in docs/problems.md."""
        return f"urn:dpp:problem:{self.reason_code.lower().replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class FieldFault:
    """A violation of a body's schema: a JSON Pointer (RFC 6901) and what was expected, never what was sent."""

    pointer: str
    detail: str


class ProblemError(Exception):
    """A request that the HTTP layer refuses. `headers` are added to the answer."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        faults: tuple[FieldFault, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.faults = faults


@dataclass(frozen=True, slots=True)
class ProblemDocument:
    """The body of an error answer; `instance` is the request's path, rendered as a URI reference.

    `members`: additional members of this kind of problem (RFC 9457, "Extension Members").
    """

    kind: ProblemKind
    detail: str
    instance: str
    trace_id: str
    run_id: str | None = None
    faults: tuple[FieldFault, ...] = field(default=())
    members: Mapping[str, str | int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The document as JSON text."""
        document: dict[str, object] = {
            "type": self.kind.type,
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": quote(_BARE_PERCENT.sub("%25", self.instance), safe=_URI_PATH, errors="replace"),
            "reason_code": self.kind.reason_code,
            "trace_id": self.trace_id,
        }
        if self.run_id is not None:
            document["run_id"] = self.run_id
        if self.faults:
            document["errors"] = [{"pointer": f.pointer, "detail": f.detail} for f in self.faults]
        document |= self.members
        return json.dumps(document, ensure_ascii=False)


MALFORMED_REQUEST = ProblemKind(400, "MALFORMED_REQUEST", "The request can't be read")
AUTH_INVALID = ProblemKind(401, "AUTH_INVALID", "A valid API key is needed")
NOT_FOUND = ProblemKind(404, "NOT_FOUND", "There is nothing here")
METHOD_NOT_ALLOWED = ProblemKind(405, "METHOD_NOT_ALLOWED", "This method is not offered here")
NOT_ACCEPTABLE = ProblemKind(406, "NOT_ACCEPTABLE", "The answer has a form that was not asked for")
PAYLOAD_TOO_LARGE = ProblemKind(413, "PAYLOAD_TOO_LARGE", "The body is too large")
UNSUPPORTED_MEDIA_TYPE = ProblemKind(415, "UNSUPPORTED_MEDIA_TYPE", "Only application/json is taken")
VALIDATION_FAILED = ProblemKind(422, "VALIDATION_FAILED", "The request doesn't fit its schema")
INTERNAL_ERROR = ProblemKind(500, "INTERNAL_ERROR", "The platform failed")
DEPENDENCY_UNAVAILABLE = ProblemKind(503, "DEPENDENCY_UNAVAILABLE", "The platform can't answer right now")
# Answers of the gateway itself: before it invokes a function, or when a function does not answer.
REQUEST_REFUSED = ProblemKind(403, "REQUEST_REFUSED", "The request was refused")
RATE_LIMITED = ProblemKind(429, "RATE_LIMITED", "Too many requests")
GATEWAY_TIMEOUT = ProblemKind(504, "GATEWAY_TIMEOUT", "No answer in time")
