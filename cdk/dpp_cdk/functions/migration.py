"""The database migration as a step of the deployment, before the functions change (RUN-29)."""

from aws_cdk import CustomResource, Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct, IDependable

from dpp_cdk.functions.function import LambdaFunction
from dpp_cdk.settings.timings import DeployTiming
from migrations.content import content_hash


class Migration(Construct):
    """Runs `functions/migrate` only when the content hash of `migrations/` changes.

    A failure fails the deployment, before anything that waits for it (`before`) has changed. A rollback leaves the
    schema as it is (functions/migrate/handler.py).
    """

    def __init__(self, scope: Construct, id: str, function: LambdaFunction) -> None:
        super().__init__(scope, id)
        if not isinstance(function.spec.timing, DeployTiming):
            raise ValueError(f"{function.spec.name} needs a DeployTiming")  # noqa: TRY004 - an error in the table
        self._resource: IDependable = CustomResource(
            self,
            "Resource",
            # Invoked directly: the CDK's provider framework would add a Node function in between.
            service_token=function.function.function_arn,
            resource_type="Custom::DatabaseMigrations",
            properties={"ContentHash": content_hash()},
            service_timeout=Duration.seconds(function.spec.timing.patience_seconds),
        )
        # The role's policy must exist first, otherwise the function could not read the password.
        self._resource.node.add_dependency(function)

    def before(self, function: lambda_.Function) -> None:
        """Change this function only after the schema."""
        function.node.add_dependency(self._resource)
