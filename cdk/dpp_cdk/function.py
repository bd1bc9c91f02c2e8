"""The one construct through which every function is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp.platform.config import Settings
from dpp_cdk.config import Deployment, DeploymentError


class Layers(Construct):
    """The two layers that every function gets: third-party packages and the domain."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment) -> None:
        super().__init__(scope, id)
        self.versions = [
            lambda_.LayerVersion(
                self,
                name,
                code=lambda_.Code.from_asset(str(folder)),
                compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
                compatible_architectures=[deployment.lambda_architecture],
            )
            for name, folder in (("Deps", deployment.deps_layer), ("Domain", deployment.domain_layer))
        ]


@dataclass(frozen=True)
class FunctionRecipe:
    """What all functions of a deployment share: code, layers, and the values of environment variables."""

    deployment: Deployment
    layers: Sequence[lambda_.ILayerVersion]
    variables: Mapping[str, str]

    def environment(self, name: str, settings: type[Settings]) -> dict[str, str]:
        """The variables that this function's settings model reads, no more.

        Raises DeploymentError naming every required variable that has no value.
        """
        missing = [v for v in settings.variables(required_only=True) if not self.variables.get(v)]
        if missing:
            raise DeploymentError(f"{name}: no value for {', '.join(missing)}")
        return {v: self.variables[v] for v in settings.variables() if self.variables.get(v)}


class LambdaFunction(Construct):
    """One folder of `functions/` as a Lambda function, with a log group that forgets after a month."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        recipe: FunctionRecipe,
        *,
        name: str,
        settings: type[Settings],
        timeout_seconds: int,
        memory_mib: int,
        async_retries: int | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.timeout_seconds = timeout_seconds
        deployment = recipe.deployment
        function_name = f"dpp-{deployment.stage}-{name}"
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=deployment.lambda_architecture,
            handler=f"{name}.handler.handler",
            code=_code(deployment, name),
            layers=list(recipe.layers),
            environment=recipe.environment(name, settings),
            timeout=Duration.seconds(timeout_seconds),
            memory_size=memory_mib,
            log_group=log_group,
            retry_attempts=async_retries,
        )

    def allow(self, actions: Sequence[str], resource_arn: str) -> None:
        """Permit exactly these actions on exactly this resource."""
        self.function.add_to_role_policy(iam.PolicyStatement(actions=list(actions), resources=[resource_arn]))


def _code(deployment: Deployment, name: str) -> lambda_.Code:
    """`functions/`, so that the module is `<name>.handler` as in the tests, but of it this folder only."""
    if not (deployment.functions / name).is_dir():
        raise DeploymentError(f"there is no folder functions/{name}")
    return lambda_.Code.from_asset(
        str(deployment.functions),
        exclude=["/*", f"!/{name}", "__pycache__", "*.pyc"],
        ignore_mode=IgnoreMode.GIT,
    )
