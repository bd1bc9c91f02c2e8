"""The stack: which functions there are, and how they hang together. What each may do stands in `functions.py`."""

from aws_cdk import CfnOutput, Stack, Tags
from constructs import Construct

from dpp_cdk import functions, timings
from dpp_cdk.api import HttpApi
from dpp_cdk.config import Deployment
from dpp_cdk.function import FunctionRecipe, LambdaFunction, Layers
from dpp_cdk.functions import FUNCTIONS, FunctionSpec, Resource
from dpp_cdk.queue import WorkQueue
from dpp_cdk.schedules import EveryHalfMinute, EveryMinute
from dpp_cdk.signing import SigningRole
from dpp_cdk.storage import ResultStore


class DppStack(Stack):
    """Everything of one deployment but the network, the database and the cache, which are given by URL."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment) -> None:
        super().__init__(scope, id, description="DPP: metered runs")
        Tags.of(self).add("project", "dpp")
        Tags.of(self).add("stage", deployment.stage)
        self._results = ResultStore(self, "Results", keeps_data=deployment.keeps_data)
        self._runs = WorkQueue(self, "Runs", timings.RUN_WORKER)
        recipe = FunctionRecipe(
            deployment=deployment,
            layers=Layers(self, "Layers", deployment).versions,
            variables={
                **deployment.variables,
                "DPP_RUN_QUEUE_URL": self._runs.queue.queue_url,
                "DPP_RESULTS_BUCKET": self._results.bucket.bucket_name,
            },
            resource_arns={
                Resource.RUN_QUEUE: self._runs.queue.queue_arn,
                Resource.RESULTS_BUCKET: self._results.bucket.bucket_arn,
                Resource.RESULT_OBJECTS: self._results.objects_arn,
            },
        )
        self._functions = {spec: LambdaFunction(self, recipe, spec) for spec in FUNCTIONS}
        SigningRole(
            self, "Signing", reader=self._made(functions.RUNS_READ), objects_arn=self._results.objects_arn
        )
        self._api = self._http_api(deployment)
        self._runs.emptied_by(self._made(functions.RUN_WORKER))
        self._schedules()
        self._outputs(deployment)

    def _made(self, spec: FunctionSpec) -> LambdaFunction:
        return self._functions[spec]

    def _http_api(self, deployment: Deployment) -> HttpApi:
        health = self._made(functions.HEALTH)
        api = HttpApi(self, "Api", stage=deployment.stage, otherwise=health)
        api.route("/v1/runs", self._made(functions.RUNS_SUBMIT))
        api.route("/v1/runs/{run_id}", self._made(functions.RUNS_READ))
        api.route("/healthz", health)
        api.route("/readyz", health)
        return api

    def _schedules(self) -> None:
        beat = WorkQueue(self, "RunReaperBeat", timings.RUN_REAPER_BEAT)
        EveryHalfMinute(self, "RunReaperSchedule", self._made(functions.RUN_REAPER), beat)
        for spec in (functions.RUN_SWEEPER, functions.RUN_RECONCILE, functions.RUN_RETENTION):
            EveryMinute(self, f"{spec.construct_id}Schedule", self._made(spec))

    def _outputs(self, deployment: Deployment) -> None:
        dead_letters = self._runs.dead_letters
        if dead_letters is None:
            raise ValueError("the run queue has no dead-letter queue (RUN-15)")
        for name, value in {
            "ApiId": self._api.rest_api.rest_api_id,
            "Stage": deployment.stage,
            "RunQueueUrl": self._runs.queue.queue_url,
            "RunDeadLetterQueueUrl": dead_letters.queue_url,
            "ResultsBucket": self._results.bucket.bucket_name,
        }.items():
            CfnOutput(self, name, value=value)
