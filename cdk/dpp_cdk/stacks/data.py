"""The resources that outlive a release: database, cache, buckets and queues. Functions are in another stack."""

from collections.abc import Mapping, Sequence

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from dpp.packs.inputs.ocr import INPUT_OBJECT_PREFIX
from dpp_cdk.functions.spec import Resource
from dpp_cdk.resources.cache import Cache
from dpp_cdk.resources.database import Database
from dpp_cdk.resources.queue import WorkQueue
from dpp_cdk.resources.storage import (
    REPORT_PREFIX,
    RESULT_PREFIX,
    BucketLife,
    ObjectBucket,
    ResultStore,
    StoreSpec,
    archives,
    reports,
    task_files,
)
from dpp_cdk.resources.workspaces import Workspaces
from dpp_cdk.settings import timings
from dpp_cdk.settings.config import Deployment
from dpp_cdk.stacks.network import NetworkStack


class DataStack(Stack):
    """Without a network there are no servers: Postgres and Redis are given by URL, as on the local stack."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment, network: NetworkStack | None) -> None:
        super().__init__(
            scope, id, description="DPP: what outlives a release", termination_protection=deployment.keeps_data
        )
        life = BucketLife(deployment.keeps_data, empties_itself=network is not None)
        self.results = ResultStore(self, "Results", life)

        def bucket(id: str, spec: StoreSpec) -> ObjectBucket:
            return ObjectBucket(self, id, spec, access_log=self.results.access_log, life=life)

        self.reports = bucket("Reports", reports())
        self.state = bucket("State", task_files())
        self.archives = bucket("Archives", archives()) if deployment.has_workspaces else None
        self.workspaces = self._workspaces(deployment, network) if network else None
        self.runs = WorkQueue(self, "Runs", timings.RUN_WORKER)
        self.auth_errors = WorkQueue(self, "AuthErrors", timings.AUTH_ERRORS_CONSUME)
        self.database = Database(self, "Database", deployment, network) if network else None
        self.cache = Cache(self, "Cache", deployment, network) if network else None
        self._outputs()

    def _workspaces(self, deployment: Deployment, network: NetworkStack) -> Workspaces | None:
        """Homes outlive releases. Without a network, workspaces are processes and folders of the local machine."""
        if not deployment.has_workspaces:
            return None
        return Workspaces(self, "Workspaces", deployment, network, image=deployment.workspace_image)

    @property
    def variables(self) -> Mapping[str, str]:
        """The values of functions' environment variables from this stack."""
        return {
            "DPP_RUN_QUEUE_URL": self.runs.queue.queue_url,
            "DPP_RUN_DEAD_LETTER_QUEUE_URL": self.runs.required_dead_letters.queue_url,
            "DPP_AUTH_ERROR_QUEUE_URL": self.auth_errors.queue.queue_url,
            "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": self.auth_errors.required_dead_letters.queue_url,
            "DPP_RESULTS_BUCKET": self.results.bucket.bucket_name,
            "DPP_REPORTS_BUCKET": self.reports.bucket.bucket_name,
            "DPP_STATE_BUCKET": self.state.bucket.bucket_name,
            **(self.database.variables if self.database else {}),
            **(self.cache.variables if self.cache else {}),
            **({"DPP_ARCHIVES_BUCKET": self.archives.bucket.bucket_name} if self.archives else {}),
            **(self.workspaces.variables if self.workspaces else {}),
        }

    @property
    def secret_arns(self) -> Mapping[str, str]:
        """The secrets by the variable that names them; a function with the variable may read the secret."""
        arns: dict[str, str] = {}
        if self.database:
            arns["DATABASE_SECRET_ARN"] = self.database.secret.secret_arn
        if self.cache:
            arns["REDIS_SECRET_ARN"] = self.cache.secret.secret_arn
        return arns

    @property
    def resource_arns(self) -> Mapping[Resource, Sequence[str]]:
        """The ARNs that grants may name."""
        return {
            Resource.RUN_QUEUE: [self.runs.queue.queue_arn],
            Resource.DEAD_LETTERS: [self.runs.required_dead_letters.queue_arn],
            Resource.AUTH_ERROR_QUEUE: [self.auth_errors.queue.queue_arn],
            Resource.AUTH_ERROR_DEAD_LETTERS: [self.auth_errors.required_dead_letters.queue_arn],
            Resource.RESULTS_BUCKET: [self.results.bucket.bucket_arn],
            Resource.RESULT_OBJECTS: [self.results.objects_arn],
            Resource.INPUT_OBJECTS: [self.results.input_objects_arn],
            Resource.REPORT_OBJECTS: [self.reports.objects_arn],
            Resource.STATE_OBJECTS: [self.state.objects_arn],
            Resource.ARCHIVES_BUCKET: [self.archives.bucket.bucket_arn] if self.archives else [],
            Resource.ARCHIVE_OBJECTS: [self.archives.objects_arn] if self.archives else [],
        }

    @property
    def findings(self) -> Mapping[Resource, str]:
        """cdk-nag's findings on resources that are patterns; they contain the bucket's export name."""
        patterns = [
            (Resource.RESULT_OBJECTS, self.results.bucket, RESULT_PREFIX),
            (Resource.INPUT_OBJECTS, self.results.bucket, INPUT_OBJECT_PREFIX),
            (Resource.REPORT_OBJECTS, self.reports.bucket, REPORT_PREFIX),
            (Resource.STATE_OBJECTS, self.state.bucket, ""),
        ]
        if self.archives:
            patterns.append((Resource.ARCHIVE_OBJECTS, self.archives.bucket, ""))
        return {
            resource: f"IAM5[Resource::{self._exported(bucket)}/{prefix}*]" for resource, bucket, prefix in patterns
        }

    def _exported(self, bucket: s3.Bucket) -> str:
        name: str = self.resolve(self.export_value(bucket.bucket_arn))["Fn::ImportValue"]
        return name

    def _outputs(self) -> None:
        """The outputs for operators (docs/deploy.md)."""
        secrets = {
            "DatabaseSecretArn": self.database.secret.secret_arn if self.database else None,
            "CacheTokenSecretArn": self.cache.secret.secret_arn if self.cache else None,
        }
        for name, value in {
            "RunQueueUrl": self.runs.queue.queue_url,
            "RunDeadLetterQueueUrl": self.runs.required_dead_letters.queue_url,
            "AuthErrorQueueUrl": self.auth_errors.queue.queue_url,
            "AuthErrorDeadLetterQueueUrl": self.auth_errors.required_dead_letters.queue_url,
            "ResultsBucket": self.results.bucket.bucket_name,
            "ReportsBucket": self.reports.bucket.bucket_name,
            "StateBucket": self.state.bucket.bucket_name,
            **{name: arn for name, arn in secrets.items() if arn},
            **({"ArchivesBucket": self.archives.bucket.bucket_name} if self.archives else {}),
        }.items():
            CfnOutput(self, name, value=value)
