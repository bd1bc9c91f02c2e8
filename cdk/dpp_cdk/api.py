"""The HTTP API: API Gateway REST v1 that hands requests to functions, and speaks problem details.

Methods are ANY and unknown paths go to a function, so that 404 and 405 are answered by our code. What never
reaches a function (throttled, too large, timed out) is answered by gateway responses in the same form.
"""

import json
from dataclasses import dataclass

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from dpp_cdk.function import LambdaFunction

# RUN-13: on every answer, errors too. Gateway responses want constants in single quotes.
_COST_HEADERS = {
    "X-DPP-Cost-Reserved": "'0.0000'",
    "X-DPP-Cost-Used": "'0.0000'",
    "X-DPP-Budget-Remaining": "'0.0000'",
    "X-DPP-Tokens-Consumed": "'0'",
}


@dataclass(frozen=True)
class _GatewayProblem:
    """What the gateway answers in place of a function (RFC 9457)."""

    kind: apigateway.ResponseType
    status: int
    reason_code: str
    title: str
    detail: str
    retry_after_seconds: int | None = None


_KINDS = apigateway.ResponseType
_PROBLEMS = (
    _GatewayProblem(
        _KINDS.REQUEST_TOO_LARGE,
        413,
        "PAYLOAD_TOO_LARGE",
        "Payload too large",
        "The request is larger than the API takes.",
    ),
    _GatewayProblem(
        _KINDS.THROTTLED, 429, "RATE_LIMITED", "Too many requests", "Slow down, and try again.", 30
    ),
    _GatewayProblem(
        _KINDS.MISSING_AUTHENTICATION_TOKEN,  # the gateway's name for a path it doesn't know
        404,
        "NOT_FOUND",
        "Not found",
        "There is nothing here.",
    ),
    _GatewayProblem(_KINDS.RESOURCE_NOT_FOUND, 404, "NOT_FOUND", "Not found", "There is nothing here."),
    _GatewayProblem(
        _KINDS.BAD_REQUEST_BODY, 400, "INVALID_REQUEST", "Bad request", "The body can't be read."
    ),
    _GatewayProblem(
        _KINDS.BAD_REQUEST_PARAMETERS, 400, "INVALID_REQUEST", "Bad request", "The request can't be read."
    ),
    _GatewayProblem(
        _KINDS.INTEGRATION_TIMEOUT,
        504,
        "TIMEOUT",
        "Gateway timeout",
        "No answer in time. Repeat the request with the same Idempotency-Key.",
        5,
    ),
    _GatewayProblem(
        _KINDS.INTEGRATION_FAILURE,
        503,
        "SERVICE_UNAVAILABLE",
        "Service unavailable",
        "Repeat the request with the same Idempotency-Key.",
        5,
    ),
    _GatewayProblem(_KINDS.DEFAULT_4_XX, 403, "REQUEST_REFUSED", "Forbidden", "The request was refused."),
    _GatewayProblem(
        _KINDS.DEFAULT_5_XX,
        500,
        "INTERNAL_ERROR",
        "Internal server error",
        "Repeat the request with the same Idempotency-Key.",
    ),
)


class HttpApi(Construct):
    """A REST API whose stage is the deployment's; `otherwise` answers what no route takes."""

    def __init__(self, scope: Construct, id: str, *, stage: str, otherwise: LambdaFunction) -> None:
        super().__init__(scope, id)
        self.rest_api = apigateway.RestApi(
            self,
            "RestApi",
            rest_api_name=f"dpp-{stage}",
            description="DPP: submit and read metered runs",
            cloud_watch_role=False,  # a setting of the account, not of this API
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            deploy_options=apigateway.StageOptions(stage_name=stage),
        )
        for problem in _PROBLEMS:
            self._speak(problem)
        self.rest_api.root.add_method("ANY", _integration(otherwise))
        for path in ("/{proxy+}", "/v1", "/v1/{proxy+}", "/v1/runs/{run_id}/{proxy+}"):
            self.route(path, otherwise)

    def route(self, path: str, function: LambdaFunction) -> None:
        """Hand every method of `path` to `function`, the event untouched (proxy integration)."""
        self.rest_api.root.resource_for_path(path).add_method("ANY", _integration(function))

    def _speak(self, problem: _GatewayProblem) -> None:
        document = {
            "type": f"urn:dpp:problem:{problem.reason_code.lower().replace('_', '-')}",
            "title": problem.title,
            "status": problem.status,
            "detail": problem.detail,
            "instance": "$context.path",
            "reason_code": problem.reason_code,
            "trace_id": "$context.requestId",
        }
        headers = {**_COST_HEADERS, "Content-Type": "'application/problem+json'"}
        if problem.retry_after_seconds is not None:
            headers["Retry-After"] = f"'{problem.retry_after_seconds}'"
        self.rest_api.add_gateway_response(
            f"Problem{problem.kind.response_type.title().replace('_', '')}",
            type=problem.kind,
            status_code=str(problem.status),
            response_headers=headers,
            templates={"application/json": json.dumps(document)},
        )


def _integration(function: LambdaFunction) -> apigateway.LambdaIntegration:
    """One permission a function for the whole API; one a method would soon fill its policy (20 kB)."""
    return apigateway.LambdaIntegration(
        function.function, proxy=True, allow_test_invoke=False, scope_permission_to_method=False
    )
