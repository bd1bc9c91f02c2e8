"""The migration of the database as a step of the deployment, before the functions change (RUN-29)."""

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IDependable

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.settings.timings import DeployTiming
from migrations.content import content_hash


class Migration(Construct):
    """Runs `functions/migrate` when the content hash of `migrations/` changes, and never else.

    A failure fails the deployment. What waits for it (`before`) has not changed by then, and the rollback
    leaves the schema as it is (functions/migrate/handler.py).
    """

    def __init__(self, scope: Construct, id: str, function: LambdaFunction) -> None:
        super().__init__(scope, id)
        if not isinstance(function.spec.timing, DeployTiming):
            raise ValueError(f"{function.spec.name} is not timed for a deployment")  # noqa: TRY004 - a wrong table
        self._resource: IDependable = CustomResource(
            self,
            "Resource",
            # Asked directly: the CDK's provider framework would put a Node function of its own in between.
            service_token=function.function.function_arn,
            resource_type="Custom::DatabaseMigrations",
            properties={"ContentHash": content_hash()},
            service_timeout=Duration.seconds(function.spec.timing.patience_seconds),
        )
        # Its role's policy first: a function that is asked before it may read the password fails for nothing.
        self._resource.node.add_dependency(function)

    def before(self, function: lambda_.Function) -> None:
        """Let a function change only after the schema did."""
        function.node.add_dependency(self._resource)
