"""The HTTP API: API Gateway REST v1 that hands requests to functions, and speaks problem details.

Methods are ANY and unknown paths go to a function, so that 404 and 405 are answered by our code. What never
reaches a function (throttled, too large, timed out) is answered by gateway responses in the same form.
"""

import json
from dataclasses import dataclass

from aws_cdk import aws_apigateway as apigateway
from constructs import Construct

from dpp.platform.http.problem import (
    CONTENT_TYPE,
    DEPENDENCY_UNAVAILABLE,
    INTERNAL_ERROR,
    MALFORMED_REQUEST,
    NOT_FOUND,
    PAYLOAD_TOO_LARGE,
    ProblemKind,
)
from dpp_cdk.function import LambdaFunction

# RUN-13: on every answer, errors too. Gateway responses want constants in single quotes.
_COST_HEADERS = {
    "X-DPP-Cost-Reserved": "'0.0000'",
    "X-DPP-Cost-Used": "'0.0000'",
    "X-DPP-Budget-Remaining": "'0.0000'",
    "X-DPP-Tokens-Consumed": "'0'",
}


RATE_LIMITED = ProblemKind(429, "RATE_LIMITED", "Too many requests")
REQUEST_REFUSED = ProblemKind(403, "REQUEST_REFUSED", "The request was refused")
GATEWAY_TIMEOUT = ProblemKind(504, "GATEWAY_TIMEOUT", "No answer in time")


@dataclass(frozen=True)
class _GatewayProblem:
    """What the gateway answers in place of a function (RFC 9457)."""

    cause: apigateway.ResponseType
    kind: ProblemKind
    detail: str
    retry_after_seconds: int | None = None


_CAUSES = apigateway.ResponseType
_REPEAT = "Repeat the request with the same Idempotency-Key."
_PROBLEMS = (
    _GatewayProblem(_CAUSES.REQUEST_TOO_LARGE, PAYLOAD_TOO_LARGE, "The gateway takes 10 MB."),
    _GatewayProblem(_CAUSES.THROTTLED, RATE_LIMITED, "Slow down, and try again.", 30),
    # The gateway's name for a path it doesn't know.
    _GatewayProblem(_CAUSES.MISSING_AUTHENTICATION_TOKEN, NOT_FOUND, "No such resource."),
    _GatewayProblem(_CAUSES.RESOURCE_NOT_FOUND, NOT_FOUND, "No such resource."),
    _GatewayProblem(_CAUSES.BAD_REQUEST_BODY, MALFORMED_REQUEST, "The body can't be read."),
    _GatewayProblem(_CAUSES.BAD_REQUEST_PARAMETERS, MALFORMED_REQUEST, "The request can't be read."),
    _GatewayProblem(_CAUSES.INTEGRATION_TIMEOUT, GATEWAY_TIMEOUT, _REPEAT, 5),
    _GatewayProblem(_CAUSES.INTEGRATION_FAILURE, DEPENDENCY_UNAVAILABLE, _REPEAT, 5),
    _GatewayProblem(_CAUSES.DEFAULT_4_XX, REQUEST_REFUSED, "The gateway refused the request."),
    _GatewayProblem(_CAUSES.DEFAULT_5_XX, INTERNAL_ERROR, _REPEAT),
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
            "type": problem.kind.type,
            "title": problem.kind.title,
            "status": problem.kind.status,
            "detail": problem.detail,
            "instance": "$context.path",
            "reason_code": problem.kind.reason_code,
            "trace_id": "$context.requestId",
        }
        headers = {**_COST_HEADERS, "Content-Type": f"'{CONTENT_TYPE}'"}
        if problem.retry_after_seconds is not None:
            headers["Retry-After"] = f"'{problem.retry_after_seconds}'"
        self.rest_api.add_gateway_response(
            f"Problem{problem.cause.response_type.title().replace('_', '')}",
            type=problem.cause,
            status_code=str(problem.kind.status),
            response_headers=headers,
            templates={"application/json": json.dumps(document)},
        )


def _integration(function: LambdaFunction) -> apigateway.LambdaIntegration:
    """One permission a function for the whole API; one a method would soon fill its policy (20 kB)."""
    return apigateway.LambdaIntegration(
        function.function, proxy=True, allow_test_invoke=False, scope_permission_to_method=False
    )
