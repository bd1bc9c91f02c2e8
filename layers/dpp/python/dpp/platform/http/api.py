"""Routes of an HTTP function: powertools' REST resolver, with a problem document for every error (RUN-9)."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel

from dpp.platform.errors import DependencyUnavailable
from dpp.platform.http import problem
from dpp.platform.http.cacheable import CACHE_CONTROL, Content
from dpp.platform.ids import trace_id_from
from dpp.platform.observability.logging import where
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import REFUSALS

_LOG = logging.getLogger("dpp.http")
_TRACE_HEADER = "X-Trace-Id"
_ANY_PATH = r"[\s\S]+"  # a path decoded by the gateway may contain a line break
_RETRY = "Try again in a second. Repeating a POST with the same Idempotency-Key is safe."
_HEADERS_OF_EVERY_ANSWER = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

_PATH_PARAMETER = re.compile(r"<\w+>")

type Handler = Callable[..., Response[str]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The problem document of an error, and the headers of its answer."""

    document: problem.ProblemDocument
    headers: dict[str, str]


class _Resolver(APIGatewayRestResolver):
    """Powertools' resolver, but a path parameter matches any segment: a malformed id gets the same 404 (D13)."""

    @staticmethod
    def _compile_regex(rule: str, base_regex: str = "^{}/*$") -> re.Pattern[str]:
        return re.compile(base_regex.format(_PATH_PARAMETER.sub(r"(?P\g<0>[^/]+)", rule)))


class Api:
    """The routes of one function. Every exception of a route becomes a problem document without internal details.

    `problems` maps a context's exceptions to their kinds. `error_headers` returns a context's headers for an error
    answer (RUN-13), given the exception, or None if no route matched. `meter` counts refusals.
    """

    def __init__(
        self,
        problems: Mapping[type[Exception], problem.ProblemKind],
        error_headers: Callable[[Exception | None], Mapping[str, str]],
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._problems: dict[type[Exception], problem.ProblemKind] = {
            **problems,
            DependencyUnavailable: problem.DEPENDENCY_UNAVAILABLE,
        }
        self._error_headers = error_headers
        self._methods: dict[str, list[str]] = {}
        self._trace_id = ""
        self._resolver = _Resolver(debug=False)  # otherwise POWERTOOLS_DEV would print every event (D8)
        self._resolver.exception_handler(Exception)(self._refuse)
        self._resolver.not_found(self._not_routed)

    def route(self, method: str, path: str | None) -> Callable[[Handler], Handler]:
        """Register a handler for a method and a path; for every path if `path` is None.

        A parameter `<name>` of the path matches one segment, which the handler gets as its argument `name`.
        """

        def register(handler: Handler) -> Handler:
            self._methods.setdefault(path or _ANY_PATH, []).append(method)
            self._resolver.route(path or _ANY_PATH, method=method)(handler)
            return handler

        return register

    @property
    def event(self) -> APIGatewayProxyEvent:
        """The current request."""
        return self._resolver.current_event

    @property
    def trace_id(self) -> str:
        """The request's trace id: the client's if it is valid, otherwise a new one."""
        return self._trace_id

    def adopt_trace_id(self, trace_id: str) -> None:
        """Use the trace id of the request's body from here on."""
        self._trace_id = trace_id

    def path_parameter(self, name: str) -> str:
        """A path parameter from the gateway, still percent-encoded; empty if there is none."""
        return (self.event.path_parameters or {}).get(name) or ""

    def answer(self, event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one API Gateway event."""
        headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
        self._trace_id = trace_id_from(headers.get(_TRACE_HEADER.lower()))
        return self._resolver.resolve(event, context)

    def json(self, status: int, body: BaseModel | Mapping[str, object], headers: Mapping[str, str]) -> Response[str]:
        """An answer with a JSON body. A model is dumped by alias and without its None values."""
        if isinstance(body, BaseModel):
            text = body.model_dump_json(by_alias=True, exclude_none=True)
        else:
            text = json.dumps(body)
        return self._respond(status, "application/json", text, headers)

    def empty(self, status: int, headers: Mapping[str, str]) -> Response[str]:
        """An answer without a body."""
        return self._respond(status, None, "", headers)

    def cacheable(self, content: Content, headers: Mapping[str, str]) -> Response[str]:
        """Content that clients may cache, or 304 for a client that has it.

        A HEAD gets the content, too: the gateway computes Content-Length from it, which must be that of a GET (RFC
        9110, 8.6), and drops it.
        """
        all_headers = {"ETag": content.entity_tag, "Cache-Control": CACHE_CONTROL, **headers}
        if content.is_known_to(self.event):
            return self._respond(304, None, "", all_headers)
        return self._respond(200, content.content_type, content.text, all_headers)

    def refusal(self, error: Exception) -> Refusal:
        """Log and count an error, and return it as a problem, for an answer that contains it."""
        headers = dict(self._error_headers(error))
        if isinstance(error, problem.ProblemError):
            return self._problem(error.kind, error.detail, headers | error.headers, error)
        kind = next((kind for cls, kind in self._problems.items() if isinstance(error, cls)), problem.INTERNAL_ERROR)
        if kind is problem.INTERNAL_ERROR:
            _LOG.error("unexpected error", extra={"trace_id": self.trace_id, "error": where(error)})
            return self._problem(kind, "This is a defect of the platform; it has been logged.", headers, error)
        if kind is problem.DEPENDENCY_UNAVAILABLE:
            _LOG.error(str(error), extra={"trace_id": self.trace_id})
            headers.setdefault("Retry-After", "1")
            return self._problem(kind, _RETRY, headers, error)
        return self._problem(kind, str(error), headers, error)

    def _respond(self, status: int, content_type: str | None, body: str, headers: Mapping[str, str]) -> Response[str]:
        all_headers = {**_HEADERS_OF_EVERY_ANSWER, _TRACE_HEADER: self.trace_id, **headers}
        return Response(status, content_type=content_type, body=body, headers=all_headers)

    def _refuse(self, error: Exception) -> Response[str]:
        return self._answer(self.refusal(error))

    def _not_routed(self, _error: NotFoundError) -> Response[str]:
        headers = dict(self._error_headers(None))
        if allowed := self._allowed(self.event.path):
            headers["Allow"] = ", ".join(allowed)
            return self._answer(self._problem(problem.METHOD_NOT_ALLOWED, f"Use {headers['Allow']}.", headers))
        return self._answer(self._problem(problem.NOT_FOUND, "No such resource.", headers))

    def _allowed(self, path: str) -> list[str]:
        """The methods of the route with exactly this path, otherwise of the first route that matches it."""
        if exact := self._methods.get(path):
            return exact
        for known, methods in self._methods.items():
            pattern = known if known == _ANY_PATH else _PATH_PARAMETER.sub("[^/]+", known)
            if re.fullmatch(pattern, path):
                return methods
        return []

    def _problem(
        self, kind: problem.ProblemKind, detail: str, headers: dict[str, str], error: Exception | None = None
    ) -> Refusal:
        document = problem.ProblemDocument(
            kind=kind,
            detail=detail,
            instance=self.event.path,
            trace_id=self.trace_id,
            run_id=getattr(error, "run_id", None),
            faults=getattr(error, "faults", ()),
            members=getattr(error, "members", {}),
        )
        refusal = {"trace_id": self.trace_id, "status_code": kind.status, "run_id": document.run_id}
        _LOG.info("refused", extra={**refusal, "error": {"reason_code": kind.reason_code}})
        self._meter.add(REFUSALS, ReasonCode=kind.reason_code)
        self._meter.run_ended(getattr(error, "ending", None))  # a refused submit may have ended its run
        return Refusal(document, headers)

    def _answer(self, refusal: Refusal) -> Response[str]:
        document = refusal.document
        return self._respond(document.kind.status, problem.CONTENT_TYPE, document.to_json(), refusal.headers)
