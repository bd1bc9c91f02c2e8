"""The HTTP API: API Gateway REST v1, which forwards requests to functions and answers with problem details.

Methods are ANY and unknown paths go to a function, so that the platform's code answers 404 and 405. Requests that never
reach a function (throttled, too large, timed out) are answered by gateway responses in the same format.
"""

import json
from dataclasses import dataclass

from aws_cdk import CfnOutput, Duration, RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as certificates
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp.platform.http.problem import (
    CONTENT_TYPE,
    DEPENDENCY_UNAVAILABLE,
    GATEWAY_TIMEOUT,
    INTERNAL_ERROR,
    MALFORMED_REQUEST,
    NOT_FOUND,
    PAYLOAD_TOO_LARGE,
    RATE_LIMITED,
    REQUEST_REFUSED,
    ProblemKind,
)
from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.nag import acknowledge, managed_policy
from dpp_cdk.settings.config import Deployment

# RUN-13: on every answer, errors included. Gateway responses require constants in single quotes.
_COST_HEADERS = {
    "X-DPP-Cost-Reserved": "'0.0000'",
    "X-DPP-Cost-Used": "'0.0000'",
    "X-DPP-Budget-Remaining": "'0.0000'",
    "X-DPP-Tokens-Consumed": "'0'",
}


@dataclass(frozen=True)
class _GatewayProblem:
    """An answer of the gateway in place of a function (RFC 9457)."""

    cause: apigateway.ResponseType
    kind: ProblemKind
    detail: str
    retry_after_seconds: int | None = None


_CAUSES = apigateway.ResponseType
_REPEAT = "Repeat the request with the same Idempotency-Key."
_PROBLEMS = (
    _GatewayProblem(_CAUSES.REQUEST_TOO_LARGE, PAYLOAD_TOO_LARGE, "The gateway takes 10 MB."),
    _GatewayProblem(_CAUSES.THROTTLED, RATE_LIMITED, "Slow down, and try again.", 30),
    # The gateway's name for an unknown path.
    _GatewayProblem(_CAUSES.MISSING_AUTHENTICATION_TOKEN, NOT_FOUND, "No such resource."),
    _GatewayProblem(_CAUSES.RESOURCE_NOT_FOUND, NOT_FOUND, "No such resource."),
    _GatewayProblem(_CAUSES.BAD_REQUEST_BODY, MALFORMED_REQUEST, "The body can't be read."),
    _GatewayProblem(_CAUSES.BAD_REQUEST_PARAMETERS, MALFORMED_REQUEST, "The request can't be read."),
    _GatewayProblem(_CAUSES.INTEGRATION_TIMEOUT, GATEWAY_TIMEOUT, _REPEAT, 5),
    _GatewayProblem(_CAUSES.INTEGRATION_FAILURE, DEPENDENCY_UNAVAILABLE, _REPEAT, 5),
    _GatewayProblem(_CAUSES.DEFAULT_4_XX, REQUEST_REFUSED, "The gateway refused the request."),
    _GatewayProblem(_CAUSES.DEFAULT_5_XX, INTERNAL_ERROR, _REPEAT),
)


_ACCESS_LOG = {
    "request_id": "$context.requestId",
    "time": "$context.requestTime",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "response_bytes": "$context.responseLength",
    "latency_ms": "$context.responseLatency",
    "function_latency_ms": "$context.integration.latency",
    "function_error": "$context.integration.error",
    "gateway_error": "$context.error.responseType",
    "source_ip": "$context.identity.sourceIp",
    "user_agent": "$context.identity.userAgent",
}
"""One line per request, with no header but the user agent, no query and no body, so no key and no input (RUN-31)."""


class HttpApi(Construct):
    """A REST API with the deployment's stage; `otherwise` answers requests without a route.

    No CORS: a key of the platform must not be used in a browser. The functions validate bodies and their size, and
    refuse with the API's problem documents; the gateway accepts up to 10 MB. Clients send a bearer key, which the
    functions verify; the gateway has no keys.
    """

    def __init__(self, scope: Construct, id: str, deployment: Deployment, *, otherwise: LambdaFunction) -> None:
        super().__init__(scope, id)
        self._deployment = deployment
        size = deployment.size.api
        self.name = f"dpp-{deployment.stage}"
        self.rest_api = apigateway.RestApi(
            self,
            "RestApi",
            rest_api_name=self.name,
            description="DPP: submit and read metered runs",
            # Access logs need a role of the account, one per region; it is retained, since other APIs may use it.
            cloud_watch_role=True,
            cloud_watch_role_removal_policy=RemovalPolicy.RETAIN,
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            disable_execute_api_endpoint=bool(deployment.domain_name),
            deploy_options=apigateway.StageOptions(
                stage_name=deployment.stage,
                throttling_rate_limit=size.rate_per_second,
                throttling_burst_limit=size.burst,
                metrics_enabled=True,
                # Not the gateway's execution log: it quotes requests, keys included.
                logging_level=apigateway.MethodLoggingLevel.OFF,
                data_trace_enabled=False,
                tracing_enabled=deployment.tracing,
                access_log_destination=apigateway.LogGroupLogDestination(self._access_log_group()),
                access_log_format=apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG)),
            ),
        )
        self._plan()
        self._named()
        self._acknowledge()
        for problem in _PROBLEMS:
            self._answer_with(problem)
        self.route("/", otherwise)
        for path in ("/{proxy+}", "/v1", "/v1/{proxy+}", "/v1/runs/{run_id}/{proxy+}"):
            self.route(path, otherwise)

    def route(self, path: str, function: LambdaFunction) -> None:
        """Forward every method of `path` to `function`, with the event unchanged (proxy integration)."""
        root = self.rest_api.root
        method = (root if path == "/" else root.resource_for_path(path)).add_method("ANY", _integration(function))
        reason = "the function verifies a bearer key, whose hash is in the database; a second check adds nothing"
        acknowledge(method, "APIG4", reason)
        acknowledge(method, "COG4", reason)

    @property
    def url(self) -> str:
        """The base URL for clients: append `/v1/runs`."""
        name = self._deployment.domain_name
        return f"https://{name}" if name else self.rest_api.url

    def server_error_alarm(self, id: str) -> cloudwatch.Alarm:
        """Alarm on the share of 5xx answers, which rolls a release back: a 5xx answer is no error of its function."""
        return cloudwatch.Alarm(
            self,
            id,
            alarm_description="Clients get 5xx; a release in progress is rolled back",
            metric=self.rest_api.metric_server_error(statistic="Average", period=Duration.minutes(1)),
            threshold=0.05,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def _acknowledge(self) -> None:
        api = self.rest_api
        acknowledge(
            api,
            "APIG2",
            "the functions validate against the published document and refuse with the API's problem documents",
        )
        stage = api.deployment_stage
        acknowledge(stage, "APIG6", "an execution log quotes requests, keys included; the access log has every request")
        acknowledge(
            stage,
            "APIG3",
            "clients are machines with a key and a rate limit each; a web ACL is a choice of the account",
        )
        acknowledge(
            api.node.find_child("CloudWatchRole"),
            managed_policy("AmazonAPIGatewayPushToCloudWatchLogs"),
            "the policy that API Gateway documents for an account's log role",
        )

    def _access_log_group(self) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            "AccessLog",
            log_group_name=f"/dpp/{self._deployment.stage}/api-access",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.RETAIN if self._deployment.keeps_data else RemovalPolicy.DESTROY,
        )

    def _plan(self) -> None:
        """The usage plan of clients with a gateway key: rate and daily quota. The stage's limits apply to all."""
        size = self._deployment.size.api
        self.rest_api.add_usage_plan(
            "Plan",
            name=self.name,
            throttle=apigateway.ThrottleSettings(rate_limit=size.rate_per_second, burst_limit=size.burst),
            quota=apigateway.QuotaSettings(limit=size.requests_per_day, period=apigateway.Period.DAY),
            api_stages=[apigateway.UsagePlanPerApiStage(api=self.rest_api, stage=self.rest_api.deployment_stage)],
        )

    def _named(self) -> None:
        """Add the operator's domain name, which then is the only access."""
        if not self._deployment.domain_name:
            return
        name = self.rest_api.add_domain_name(
            "Name",
            domain_name=self._deployment.domain_name,
            certificate=certificates.Certificate.from_certificate_arn(
                self, "Certificate", self._deployment.certificate_arn
            ),
            endpoint_type=apigateway.EndpointType.REGIONAL,
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
        )
        CfnOutput(self, "DomainTarget", value=name.domain_name_alias_domain_name).override_logical_id("ApiDomainTarget")

    def _answer_with(self, problem: _GatewayProblem) -> None:
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
    """One permission per function for the whole API, because one per method would exceed the policy's size (20 kB).

    It includes the console's test call, whose callers could invoke the function directly anyway.
    """
    return apigateway.LambdaIntegration(function.live, proxy=True, scope_permission_to_method=False)
