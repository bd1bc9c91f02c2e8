"""The stack of the functions and their event sources. `table.py` has each function's permissions."""

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk.aws_codedeploy import LambdaApplication
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct

from dpp_cdk.functions import table
from dpp_cdk.functions.callees import Callees
from dpp_cdk.functions.function import FunctionRecipe, LambdaFunction, Layers
from dpp_cdk.functions.migration import Migration
from dpp_cdk.functions.release import GradualRelease
from dpp_cdk.functions.signing import SigningRole
from dpp_cdk.functions.spec import FunctionSpec, Part, Resource
from dpp_cdk.functions.table import SCHEDULED_FUNCTIONS, functions_of
from dpp_cdk.nag import acknowledge
from dpp_cdk.resources.api import HttpApi
from dpp_cdk.resources.queue import WorkQueue
from dpp_cdk.resources.schedules import ByQueue, EveryHalfMinute, EveryMinute
from dpp_cdk.resources.workspace_queues import NO_QUEUES, WorkspaceQueues
from dpp_cdk.resources.workspaces import HOMES_PATH
from dpp_cdk.settings import timings
from dpp_cdk.settings.config import Deployment
from dpp_cdk.settings.models import model_arns
from dpp_cdk.settings.sizes import MAX_PUBLISHERS
from dpp_cdk.stacks.data import DataStack
from dpp_cdk.stacks.network import NetworkStack

_HALF_MINUTE = {
    table.RUN_REAPER: timings.RUN_REAPER_HALF_MINUTE,
    table.LIFECYCLE_GENERAL: timings.LIFECYCLE_GENERAL_HALF_MINUTE,
}
"""The functions with a tick each half minute, and the queue of the tick in between."""


class DppStack(Stack):
    """API, worker, jobs and the migration before them; their data is in the data stack."""

    def __init__(
        self, scope: Construct, id: str, deployment: Deployment, data: DataStack, network: NetworkStack | None
    ) -> None:
        super().__init__(scope, id, description="DPP: metered runs")
        self._deployment = deployment
        self._data = data
        # It need not survive a release: the events are in the outbox.
        self._wake = WorkQueue(self, "AuthErrorWake", timings.AUTH_ERRORS_PUBLISH)
        acknowledge(self._wake.queue, "SQS3", "its messages only wake the publisher: the events are in the outbox")
        self._workspaces = WorkspaceQueues(self) if deployment.has_workspaces else None
        recipe = self._recipe(network)
        self._functions = {spec: LambdaFunction(self, recipe, spec) for spec in functions_of(deployment.parts)}
        signing = SigningRole(self, "Signing", reader=self._made(table.RUNS_READ), objects_arn=data.results.objects_arn)
        acknowledge(signing, data.findings[Resource.RESULT_OBJECTS], "the results of every run, and nothing else")
        self._migrate_first()
        self.api = self._http_api()
        data.runs.consumed_by(self._made(table.RUN_WORKER), max_concurrency=deployment.max_workers)
        data.auth_errors.consumed_by(
            self._made(table.AUTH_ERRORS_CONSUME), max_concurrency=deployment.size.max_consumers
        )
        self._wake.consumed_by(self._made(table.AUTH_ERRORS_PUBLISH), max_concurrency=MAX_PUBLISHERS)
        if self._workspaces:
            self._control_workspaces(self._workspaces)
        self._schedules()
        self._release_gradually()
        self._outputs()

    def _recipe(self, network: NetworkStack | None) -> FunctionRecipe:
        deployment, data = self._deployment, self._data
        callees = Callees(self, deployment)
        secret_arns = dict(data.secret_arns)
        if deployment.openai_secret_arn:
            secret_arns["DPP_DECISION_OPENAI_API_KEY_SECRET_ARN"] = deployment.openai_secret_arn
        if lifecycle_secret_arn := deployment.variables.get("DPP_LIFECYCLE_SECRET_ARN"):
            secret_arns["DPP_LIFECYCLE_SECRET_ARN"] = lifecycle_secret_arn
        return FunctionRecipe(
            deployment=deployment,
            layers=Layers(self, "Layers", deployment).versions,
            variables={
                **deployment.variables,
                **data.variables,
                **secret_arns,
                **callees.variables,
                "DPP_AUTH_ERROR_WAKE_QUEUE_URL": self._wake.queue.queue_url,
                **(self._workspaces.variables if self._workspaces else {}),
                **_provider(deployment),
            },
            secret_arns=secret_arns,
            resource_arns={
                **data.resource_arns,
                **callees.resource_arns,
                Resource.AUTH_ERROR_WAKE: [self._wake.queue.queue_arn],
                **(self._workspaces.resource_arns if self._workspaces else NO_QUEUES),
                Resource.DECISION_MODEL: model_arns(
                    self, deployment.variables.get("DPP_DECISION_BEDROCK_MODEL_ID", "")
                ),
            },
            place=network.functions if network else None,
            findings=data.findings,
            homes=data.workspaces.file_system_mount if data.workspaces else None,
        )

    def _made(self, spec: FunctionSpec) -> LambdaFunction:
        return self._functions[spec]

    def _migrate_first(self) -> None:
        migration = Migration(self, "Migrations", self._made(table.MIGRATE))
        for spec, function in self._functions.items():
            if spec is not table.MIGRATE:
                migration.before(function.function)

    def _http_api(self) -> HttpApi:
        health = self._made(table.HEALTH)
        api = HttpApi(self, "Api", self._deployment, otherwise=health)
        api.route("/v1/runs", self._made(table.RUNS_SUBMIT))
        api.route("/v1/runs/{run_id}", self._made(table.RUNS_READ))
        api.route("/mcp", self._made(table.RUNS_MCP))
        tickets = self._made(table.TICKETS_API)
        for path in ("/api", "/api/{proxy+}"):  # the function's code has the routes, and answers 404 and 405
            api.route(path, tickets)
        auth_errors = self._made(table.AUTH_ERRORS_API)
        for path in ("/api/auth-errors", "/api/auth-errors/{proxy+}"):
            api.route(path, auth_errors)
        if self._workspaces:
            workspaces = self._made(table.WORKSPACES_API)
            for path in ("/v1/workspaces", "/v1/workspaces/{proxy+}"):
                api.route(path, workspaces)
        if Part.LIFECYCLE in self._deployment.parts:
            webhook = self._made(table.LIFECYCLE_WEBHOOK)
            for path in ("/v1/webhooks", "/v1/webhooks/{proxy+}"):
                api.route(path, webhook)
        for path in ("/healthz", "/readyz"):
            api.route(path, health)
        for path in ("/openapi.json", "/docs"):
            api.route(path, self._made(table.API_DOCS))
        return api

    def _control_workspaces(self, queues: WorkspaceQueues) -> None:
        control, storage = (self._made(table.WORKSPACES_CONTROL), self._made(table.WORKSPACES_STORAGE))
        size = self._deployment.size
        queues.looks.consumed_by(control, max_concurrency=size.max_control)
        queues.works.consumed_by(storage, max_concurrency=size.max_storage)
        if self._data.workspaces:
            for function in (control, storage):
                self._data.workspaces.controlled_by(function)

    def _schedules(self) -> None:
        ByQueue(self, "AuthErrorsPublishSchedule", self._wake, Duration.minutes(1))
        for spec in SCHEDULED_FUNCTIONS:
            if not spec.is_of(self._deployment.parts):
                continue
            if (timing := _HALF_MINUTE.get(spec)) is None:
                EveryMinute(self, f"{spec.construct_id}Schedule", self._made(spec))
                continue
            delayed = WorkQueue(self, f"{spec.construct_id}Beat", timing)  # a new id would replace the queue
            acknowledge(delayed.queue, "SQS3", "a late tick is useless; the next one follows")
            EveryHalfMinute(self, f"{spec.construct_id}Schedule", self._made(spec), delayed)

    def _release_gradually(self) -> None:
        shifted = [f for f in self._functions.values() if f.alias and f.spec.is_shifted_gradually]
        if not shifted:
            return
        application = LambdaApplication(self, "Releases", application_name=f"dpp-{self._deployment.stage}")
        server_errors = self.api.server_error_alarm("ReleaseServerErrors")
        for function in shifted:
            GradualRelease(self, f"{function.spec.construct_id}Release", application, function, server_errors)

    def _outputs(self) -> None:
        """`OpenApiDocument`: the API's description of this deployment, in the CDK's asset bucket."""
        document = Asset(self, "OpenApi", path=str(self._deployment.openapi_document))
        for name, value in {
            "ApiId": self.api.rest_api.rest_api_id,
            "ApiUrl": self.api.url,
            "Stage": self._deployment.stage,
            "AuthErrorWakeQueueUrl": self._wake.queue.queue_url,
            "OpenApiDocument": document.s3_object_url,
            **(self._workspaces.outputs if self._workspaces else {}),
        }.items():
            CfnOutput(self, name, value=value)


def _provider(deployment: Deployment) -> dict[str, str]:
    """The provider of workspaces. The local stack's `DPP_WORKSPACE_ROOT` is among the deployment's variables."""
    if deployment.given_servers:
        return {"DPP_WORKSPACE_PROVIDER": "local"}
    return {"DPP_WORKSPACE_PROVIDER": "aws", "DPP_WORKSPACE_ROOT": HOMES_PATH}
