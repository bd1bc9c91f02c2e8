"""The one construct through which every function is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp.platform.config import Settings
from dpp_cdk.config import Deployment, DeploymentError
from dpp_cdk.functions import FunctionSpec, LayerName, Resource
from dpp_cdk.role import FunctionRole


class Layers(Construct):
    """The layers, by name; each function gets those that its spec lists."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment) -> None:
        super().__init__(scope, id)
        folders = {LayerName.DEPS: deployment.deps_layer, LayerName.DOMAIN: deployment.domain_layer}
        self.versions = {
            name: lambda_.LayerVersion(
                self,
                name.value,
                code=lambda_.Code.from_asset(str(folder)),
                compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
                compatible_architectures=[deployment.lambda_architecture],
            )
            for name, folder in folders.items()
        }


@dataclass(frozen=True)
class FunctionRecipe:
    """What all functions of a deployment share: layers, values of environment variables, ARNs of resources."""

    deployment: Deployment
    layers: Mapping[LayerName, lambda_.ILayerVersion]
    variables: Mapping[str, str]
    resource_arns: Mapping[Resource, str]

    def environment(self, name: str, settings: type[Settings]) -> dict[str, str]:
        """The variables that this function's settings model reads, no more.

        Raises DeploymentError naming every required variable that has no value.
        """
        missing = [v for v in settings.variables(required_only=True) if not self.variables.get(v)]
        if missing:
            raise DeploymentError(f"{name}: no value for {', '.join(missing)}")
        return {v: self.variables[v] for v in settings.variables() if self.variables.get(v)}


class LambdaFunction(Construct):
    """One folder of `functions/` as a Lambda function: a role of its own, a log group that forgets after a month."""

    def __init__(self, scope: Construct, recipe: FunctionRecipe, spec: FunctionSpec) -> None:
        super().__init__(scope, spec.construct_id)
        self.spec = spec
        deployment = recipe.deployment
        function_name = f"dpp-{deployment.stage}-{spec.name}"
        log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=logs.RetentionDays.ONE_MONTH,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self._role = FunctionRole(
            self, "Role", function_name=function_name, log_group=log_group, in_network=False
        )
        for grant in spec.grants:
            self.allow(grant.actions, recipe.resource_arns[grant.resource])
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=deployment.lambda_architecture,
            handler=f"{spec.name}.handler.handler",
            code=_code(deployment, spec.name),
            layers=[recipe.layers[name] for name in spec.layers],
            environment=recipe.environment(spec.name, spec.settings),
            timeout=Duration.seconds(spec.timing.timeout_seconds),
            memory_size=spec.memory_mib,
            log_group=log_group,
            role=self._role.role,
            retry_attempts=spec.async_retries,
        )

    @property
    def role_arn(self) -> str:
        """The ARN of the role that the function runs with."""
        return self._role.role.role_arn

    def allow(self, actions: Sequence[str], resource_arn: str) -> None:
        """Permit exactly these actions on exactly this resource."""
        self._role.allow(list(actions), resource_arn)


def _code(deployment: Deployment, name: str) -> lambda_.Code:
    """`functions/`, so that the module is `<name>.handler` as in the tests, but of it this folder only."""
    if not (deployment.functions / name).is_dir():
        raise DeploymentError(f"there is no folder functions/{name}")
    return lambda_.Code.from_asset(
        str(deployment.functions),
        exclude=["/*", f"!/{name}", "__pycache__", "*.pyc"],
        ignore_mode=IgnoreMode.GIT,
    )
