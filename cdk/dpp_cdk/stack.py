"""The stack: which functions there are, what each may do, and how they hang together."""

from aws_cdk import CfnOutput, Duration, Stack, Tags
from constructs import Construct

from dpp.platform.config import Settings
from dpp_cdk import timings
from dpp_cdk.api import HttpApi
from dpp_cdk.config import Deployment
from dpp_cdk.function import FunctionRecipe, LambdaFunction, Layers
from dpp_cdk.queue import WorkQueue
from dpp_cdk.schedules import EveryHalfMinute, EveryMinute
from dpp_cdk.storage import ResultStore
from health.settings import HealthSettings
from run_reaper.settings import RunReaperSettings
from run_reconcile.settings import RunReconcileSettings
from run_retention.settings import RunRetentionSettings
from run_sweeper.settings import RunSweeperSettings
from run_worker.settings import RunWorkerSettings
from runs_read.settings import RunsReadSettings
from runs_submit.settings import RunsSubmitSettings


class DppStack(Stack):
    """Everything of one deployment but the network, the database and the cache, which are given by URL."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment) -> None:
        super().__init__(scope, id, description="DPP: metered runs")
        Tags.of(self).add("project", "dpp")
        Tags.of(self).add("stage", deployment.stage)
        self._results = ResultStore(self, "Results", keeps_data=deployment.keeps_data)
        self._runs = WorkQueue(self, "Runs", timings.RUN_WORKER)
        self._recipe = FunctionRecipe(
            deployment=deployment,
            layers=Layers(self, "Layers", deployment).versions,
            variables={
                **deployment.variables,
                "DPP_RUN_QUEUE_URL": self._runs.queue.queue_url,
                "DPP_RESULTS_BUCKET": self._results.bucket.bucket_name,
            },
        )
        self._api = self._http_api(deployment)
        self._worker()
        self._schedules()
        self._outputs(deployment)

    def _http_api(self, deployment: Deployment) -> HttpApi:
        submit = LambdaFunction(
            self,
            "RunsSubmit",
            self._recipe,
            name="runs_submit",
            settings=RunsSubmitSettings,
            timeout_seconds=timings.RUNS_SUBMIT.timeout_seconds,
            memory_mib=512,
        )
        submit.allow(["sqs:SendMessage"], self._runs.queue.queue_arn)

        read = LambdaFunction(
            self,
            "RunsRead",
            self._recipe,
            name="runs_read",
            settings=RunsReadSettings,
            timeout_seconds=timings.RUNS_READ.timeout_seconds,
            memory_mib=512,
        )
        read.allow(["s3:GetObject"], self._results.objects_arn)  # presigned by its role, and for `inline`

        health = LambdaFunction(
            self,
            "Health",
            self._recipe,
            name="health",
            settings=HealthSettings,
            timeout_seconds=timings.HEALTH.timeout_seconds,
            memory_mib=256,
        )
        health.allow(["sqs:GetQueueAttributes"], self._runs.queue.queue_arn)
        health.allow(["s3:ListBucket"], self._results.bucket.bucket_arn)  # HeadBucket

        api = HttpApi(self, "Api", stage=deployment.stage, otherwise=health)
        api.route("/v1/runs", submit)
        api.route("/v1/runs/{run_id}", read)
        api.route("/healthz", health)
        api.route("/readyz", health)
        return api

    def _worker(self) -> None:
        worker = LambdaFunction(
            self,
            "RunWorker",
            self._recipe,
            name="run_worker",
            settings=RunWorkerSettings,
            timeout_seconds=timings.RUN_WORKER.timeout_seconds,
            memory_mib=1024,
        )
        worker.allow(["s3:PutObject"], self._results.objects_arn)
        self._runs.emptied_by(worker)  # grants receiving, deleting and ChangeMessageVisibility

    def _schedules(self) -> None:
        reaper = self._job("RunReaper", "run_reaper", RunReaperSettings, timings.RUN_REAPER)
        # A beat that is a minute old is worth nothing: the next one is there.
        beat = WorkQueue(self, "RunReaperBeat", timings.RUN_REAPER_BEAT, retention=Duration.minutes(1))
        EveryHalfMinute(self, "RunReaperSchedule", reaper, beat)

        sweeper = self._job("RunSweeper", "run_sweeper", RunSweeperSettings, timings.RUN_SWEEPER)
        EveryMinute(self, "RunSweeperSchedule", sweeper)

        reconcile = self._job("RunReconcile", "run_reconcile", RunReconcileSettings, timings.RUN_RECONCILE)
        reconcile.allow(["sqs:SendMessage"], self._runs.queue.queue_arn)
        reconcile.allow(["s3:GetObject"], self._results.objects_arn)
        # Without it S3 answers 403 for an object that isn't there, and a lost envelope looks like an outage.
        reconcile.allow(["s3:ListBucket"], self._results.bucket.bucket_arn)
        EveryMinute(self, "RunReconcileSchedule", reconcile)

        retention = self._job("RunRetention", "run_retention", RunRetentionSettings, timings.RUN_RETENTION)
        EveryMinute(self, "RunRetentionSchedule", retention)

    def _job(
        self, id: str, name: str, settings: type[Settings], timing: timings.ScheduleTiming
    ) -> LambdaFunction:
        """A function fired by the clock; one that fails is not repeated, since the next firing does its work."""
        return LambdaFunction(
            self,
            id,
            self._recipe,
            name=name,
            settings=settings,
            timeout_seconds=timing.timeout_seconds,
            memory_mib=512,
            async_retries=0,
        )

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
