"""The construct of every Lambda function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from dpp.platform.config import Settings
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp_cdk.functions.log_retention import log_retention
from dpp_cdk.functions.role import FunctionRole
from dpp_cdk.functions.spec import LIVE, FunctionSpec, LayerName, Resource
from dpp_cdk.nag import acknowledge
from dpp_cdk.settings.config import Deployment, DeploymentError
from dpp_cdk.stacks.network import Place


class Layers(Construct):
    """The layers by name; each function gets those in its spec."""

    def __init__(self, scope: Construct, id: str, deployment: Deployment) -> None:
        super().__init__(scope, id)
        folders = {
            LayerName.DEPS: deployment.layers.deps,
            LayerName.DOMAIN: deployment.layers.domain,
            LayerName.MIGRATIONS: deployment.layers.migrations,
            LayerName.OCR: deployment.layers.ocr,
            LayerName.URL: deployment.layers.url,
            LayerName.OPERATE: deployment.layers.operate,
            LayerName.API_DOCS: deployment.layers.api_docs,
        }
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
class FileSystemMount:
    """An EFS file system and its mount path, which Lambda requires below `/mnt/`.

    The access point makes the function root; without ClientRootAccess EFS would map root to an unprivileged user.
    """

    file_system_arn: str
    access_point_arn: str
    path: str

    def config(self) -> lambda_.FileSystem:
        """The CDK object, without `connections`: the network stack has all security group rules."""
        return lambda_.FileSystem(
            arn=self.access_point_arn,
            local_mount_path=self.path,
            policies=[
                iam.PolicyStatement(
                    actions=[f"elasticfilesystem:Client{what}" for what in ("Mount", "Write", "RootAccess")],
                    resources=[self.file_system_arn],
                    conditions={"ArnEquals": {"elasticfilesystem:AccessPointArn": self.access_point_arn}},
                )
            ],
        )


@dataclass(frozen=True)
class FunctionRecipe:
    """The parts that all functions of a deployment share.

    `variables`: values of environment variables. `secret_arns`: the secrets by the variable that names them; a function
    with the variable may read the secret. `resource_arns`: the ARNs that grants name; `findings`: cdk-nag's findings on
    patterns among them. `place`: the network, if there is one. `homes`: the file system of workspaces, if there is one.
    """

    deployment: Deployment
    layers: Mapping[LayerName, lambda_.ILayerVersion]
    variables: Mapping[str, str]
    secret_arns: Mapping[str, str]
    resource_arns: Mapping[Resource, Sequence[str]]
    place: Place | None
    findings: Mapping[Resource, str]
    homes: FileSystemMount | None = None

    def environment(self, name: str, settings: type[Settings]) -> dict[str, str]:
        """The variables that this function's settings model reads, and no others.

        Raises DeploymentError naming every required variable without a value.
        """
        if missing := settings.missing(self.variables):
            raise DeploymentError(f"{name}: no value for {'; '.join(missing)}")
        return {v: self.variables[v] for v in settings.variables() if self.variables.get(v)}


class LambdaFunction(Construct):
    """One folder of `functions/` as a Lambda function, with its own role and a log group with a retention period."""

    def __init__(self, scope: Construct, recipe: FunctionRecipe, spec: FunctionSpec) -> None:
        super().__init__(scope, spec.construct_id)
        self.spec = spec
        deployment = recipe.deployment
        self.name = spec.function_name(deployment.stage)
        place = recipe.place if spec.in_network else None
        environment = recipe.environment(spec.name, spec.settings)
        if spec.mounts_homes and recipe.homes:
            environment |= recipe.environment(spec.name, AwsWorkspaceSettings)
        log_group = self._log_group(deployment)
        self._role = FunctionRole(
            self, "Role", function_name=self.name, log_group=log_group, in_network=place is not None
        )
        self._grant(recipe, environment)
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=self.name,
            description=f"DPP {deployment.stage}: functions/{spec.name}",
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=deployment.lambda_architecture,
            handler=f"{spec.name}.handler.handler",
            code=_code(deployment, spec.name),
            layers=[recipe.layers[name] for name in spec.layers],
            environment=environment,
            timeout=Duration.seconds(spec.timing.timeout_seconds),
            memory_size=spec.memory_mib,
            log_group=log_group,
            role=self._role.role,
            retry_attempts=spec.async_retries,
            reserved_concurrent_executions=spec.reserved_concurrency(deployment.size),
            tracing=lambda_.Tracing.ACTIVE if deployment.tracing else lambda_.Tracing.DISABLED,
            vpc=place.vpc if place else None,
            vpc_subnets=place.subnets if place else None,
            security_groups=[place.security_group] if place else None,
            filesystem=recipe.homes.config() if spec.mounts_homes and recipe.homes else None,
        )
        self._acknowledge(traced_outside=deployment.tracing and place is None)
        self.alias = self._alias() if deployment.size.gradual and spec.has_releases else None

    @property
    def live(self) -> lambda_.IFunction:
        """The callers' target: the function, or its alias where releases are gradual."""
        return self.alias or self.function

    @property
    def role_arn(self) -> str:
        """The ARN of the function's role."""
        return self._role.role.role_arn

    def allow(self, actions: Sequence[str], *resource_arns: str) -> None:
        """Permit these actions on these resources."""
        self._role.allow(list(actions), *resource_arns)

    def permit(self, *statements: iam.PolicyStatement) -> None:
        """Add statements to the function's role."""
        self._role.permit(*statements)

    def acknowledge(self, finding: str, reason: str) -> None:
        """Acknowledge a finding of cdk-nag on the function's permissions."""
        self._role.acknowledge(finding, reason)

    def _grant(self, recipe: FunctionRecipe, environment: Mapping[str, str]) -> None:
        for grant in self.spec.grants:
            if arns := recipe.resource_arns[grant.resource]:
                self.allow(grant.actions, *arns)
            if (finding := recipe.findings.get(grant.resource)) is not None:
                self._role.acknowledge(finding, "the objects below one prefix, whose keys are not known beforehand")
        for variable, arn in recipe.secret_arns.items():
            if variable in environment:
                self.allow(["secretsmanager:GetSecretValue"], arn)

    def _log_group(self, deployment: Deployment) -> logs.LogGroup:
        return logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{self.name}",
            retention=log_retention(deployment.retention),
            removal_policy=RemovalPolicy.DESTROY,
        )

    def _acknowledge(self, *, traced_outside: bool) -> None:
        acknowledge(
            self.function,
            "L1",
            "the locked layers and all tests use Python 3.13; a newer version is a release of its own",
        )
        if traced_outside:
            reason = "X-Ray has no resource type for sending segments"
            self._role.acknowledge("IAM5[Resource::*]", reason)

    def _alias(self) -> lambda_.Alias:
        """Every change of code, layers or configuration publishes a version, which is kept for a rollback."""
        version = self.function.current_version
        version.apply_removal_policy(RemovalPolicy.RETAIN)
        # Asynchronous calls of the alias use the alias's retry settings, not the function's.
        return lambda_.Alias(self, "Live", alias_name=LIVE, version=version, retry_attempts=self.spec.async_retries)


def _code(deployment: Deployment, name: str) -> lambda_.Code:
    """An asset of `functions/` with only this folder, so that the module is `<name>.handler`, as in the tests."""
    if not (deployment.functions / name).is_dir():
        raise DeploymentError(f"functions/{name} does not exist: the name in functions/table.py must be a folder")
    return lambda_.Code.from_asset(
        str(deployment.functions), exclude=["/*", f"!/{name}", "__pycache__", "*.pyc"], ignore_mode=IgnoreMode.GIT
    )
