"""The configuration of one deployment: its options, size, layers and variables."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from dpp.auth_errors.config import RetrySettings, check_outbox_days
from dpp.lifecycle.config import CredentialSettings, WebhookSecretSettings
from dpp.lifecycle.retention.periods import Retention, RetentionSettings
from dpp.platform.config import ConfigurationError, Settings
from dpp_cdk.functions.spec import Part
from dpp_cdk.settings.options import PASSED_ON, RULES, DeploymentError, read_options, variable_of
from dpp_cdk.settings.sizes import SIZES, Size

__all__ = ["Deployment", "DeploymentError", "LayerFolders"]

AWS_ARCHITECTURE = "aarch64"
"""The default architecture on AWS: a fifth cheaper than x86_64 (docs/deploy.md)."""

LOCAL_MAX_WORKERS = 5
"""The local stack's maximum of concurrent runs, which is limited by one machine's cores and not by a quota."""

_ARCHITECTURES = {"x86_64": lambda_.Architecture.X86_64, "aarch64": lambda_.Architecture.ARM_64}
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_SERVERS = ("DATABASE_URL", "REDIS_URL")
_PASSED_ON = tuple(variable_of(name) for name in PASSED_ON)
_KEY = "DPP_DECISION_OPENAI_API_KEY"
_OUTSIDE: tuple[type[Settings], ...] = (CredentialSettings, WebhookSecretSettings)
_SECRETS = {_KEY: "openai_secret_arn"} | {
    str(field.alias): "lifecycle_secret_arn"
    for model in _OUTSIDE
    for field in model.model_fields.values()
    if not field.repr
}
"""The variables with secrets, each with the option for the ARN of its secret."""
_TENANT = "DPP_LIFECYCLE_TENANT"
_ROOT = "DPP_WORKSPACE_ROOT"
_LOCAL = (
    *(*_SERVERS, "DPP_REDIS_CLUSTER", _KEY, _ROOT, "DPP_WORKSPACE_COMMAND", *_PASSED_ON),
    *(variable for model in _OUTSIDE for variable in model.variables()),
)


@dataclass(frozen=True)
class LayerFolders:
    """The folders of the built layers."""

    deps: Path
    domain: Path
    migrations: Path
    ocr: Path
    url: Path
    operate: Path
    api_docs: Path


@dataclass(frozen=True)
class Deployment:
    """One deployment.

    `variables`: environment variables whose values do not come from the stacks' resources. With `DATABASE_URL` and
    `REDIS_URL` among them, which is the local stack, there is no network, no RDS and no ElastiCache. `alarm_email`,
    `domain_name` with `certificate_arn`: optional. `tracing`: X-Ray, which costs by request. `workspace_image`: the
    image of workspaces' containers; without one there are no workspaces. On the local stack workspaces are processes
    with homes below `DPP_WORKSPACE_ROOT`.
    """

    stage: str
    size: Size
    architecture: str
    functions: Path
    layers: LayerFolders
    openapi_document: Path
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    alarm_email: str = ""
    domain_name: str = ""
    certificate_arn: str = ""
    openai_secret_arn: str = ""
    workspace_image: str = ""
    tracing: bool = False

    def __post_init__(self) -> None:
        if bool(self.domain_name) != bool(self.certificate_arn):
            raise DeploymentError("domain_name and certificate_arn belong together: set both or neither")
        given = [name for name in _SERVERS if self.variables.get(name)]
        if len(given) == 1:
            raise DeploymentError(f"only {given[0]} is set: set DATABASE_URL and REDIS_URL, or neither")
        if self.given_servers:
            return
        for name, option in _SECRETS.items():
            if self.variables.get(name):
                raise DeploymentError(
                    f"{name} would be readable in a function's environment: store it in Secrets Manager"
                    f" (docs/deploy.md, docs/lifecycle.md) and set {option}"
                )
        if Part.LIFECYCLE in self.parts and not self.variables.get("DPP_LIFECYCLE_SECRET_ARN"):
            raise DeploymentError(
                "lifecycle_tenant needs lifecycle_secret_arn, the credentials of GitHub, Jira and Slack"
                " (docs/lifecycle.md)"
            )

    @property
    def lambda_architecture(self) -> lambda_.Architecture:
        """The architecture as a CDK object."""
        return _ARCHITECTURES[self.architecture]

    @property
    def given_servers(self) -> bool:
        """True if Postgres and Redis are given by URL, so that no servers and no network are created."""
        return bool(self.variables.get("DATABASE_URL"))

    @property
    def parts(self) -> frozenset[Part]:
        """The deployment's optional parts: workspaces if they have an image, or a root folder on the local stack;
        the lifecycle roles if they have a tenant that pays."""
        workspaces = self.variables.get(_ROOT) if self.given_servers else self.workspace_image
        given = {Part.WORKSPACES: workspaces, Part.LIFECYCLE: self.variables.get(_TENANT)}
        return frozenset(part for part, value in given.items() if value)

    @property
    def has_workspaces(self) -> bool:
        """True if the deployment has workspaces."""
        return Part.WORKSPACES in self.parts

    @property
    def keeps_data(self) -> bool:
        """True if deleting a stack must not delete clients' data."""
        return self.size.keeps_data

    @property
    def retention(self) -> Retention:
        """The retention periods, as the functions read them."""
        return RetentionSettings.load(self.variables).retention

    @property
    def max_workers(self) -> int:
        """The maximum of concurrent runs."""
        return LOCAL_MAX_WORKERS if self.given_servers else self.size.max_workers

    @classmethod
    def from_context(cls, app: App, root: Path, environ: Mapping[str, str]) -> "Deployment":
        """Read the context (docs: `cdk/app.py`), the stage's file, and for the local stack variables of `environ`.

        Raises DeploymentError for a wrong value, and if the layers are not built.
        """
        get = app.node.try_get_context
        local = _is_local(environ)
        stage, options = read_options(get, None if local else root / "deploy")
        architecture = str(get("architecture") or (_machine() if local else AWS_ARCHITECTURE))
        if architecture not in _ARCHITECTURES:
            raise DeploymentError(f"-c architecture={architecture}: choose one of {', '.join(_ARCHITECTURES)}")
        if not local:
            _refuse_forgettable(environ, options.function_variables, stage)
        passed = _LOCAL if local else tuple(_SECRETS)  # on AWS secrets are read only to be refused
        variables = {**options.function_variables, **{name: environ[name] for name in passed if environ.get(name)}}
        _refuse_wrong(variables)
        return cls(
            stage=stage,
            size=SIZES[options.size],
            architecture=architecture,
            functions=root / "functions",
            layers=_built_layers(root / ".dpp" / "build" / "layers", architecture),
            openapi_document=root / "docs" / "openapi.json",
            variables=variables,
            alarm_email=options.alarm_email,
            domain_name=options.domain_name,
            certificate_arn=options.certificate_arn,
            openai_secret_arn=options.openai_secret_arn,
            workspace_image=options.workspace_image,
            tracing=options.tracing == "on",
        )


def _is_local(environ: Mapping[str, str]) -> bool:
    """True if servers are given by URL, which is allowed for LocalStack only. Raises DeploymentError."""
    given = [name for name in _SERVERS if environ.get(name)]
    if given and not environ.get("AWS_ENDPOINT_URL"):
        raise DeploymentError(
            f"{' and '.join(given)} in the environment would put the functions outside of the VPC, with readable"
            " passwords: unset them, or set AWS_ENDPOINT_URL to a LocalStack"
        )
    return bool(given)


def _refuse_forgettable(environ: Mapping[str, str], options: Mapping[str, str], stage: str) -> None:
    """Refuse options given by environment variables, which the next deployment may lack. Raises DeploymentError."""
    for name in _PASSED_ON:
        if environ.get(name, "") not in ("", options.get(name)):
            option = name.removeprefix("DPP_").lower()
            raise DeploymentError(
                f"{name} in the environment would be missing in the next deployment: unset it, and write"
                f" {option} into deploy/{stage}.json"
            )


def _refuse_wrong(variables: Mapping[str, str]) -> None:
    """Validate combinations of variables by the functions' models. Raises DeploymentError.

    Options are validated singly before, and the local stack's environment variables not at all.
    """
    try:
        for rules in RULES:
            rules.load(variables)
        kept = RetentionSettings.load(variables).retention
        check_outbox_days(kept.outbox_days, RetrySettings.load(variables).max_retries)
    except ConfigurationError as error:
        raise DeploymentError(str(error)) from None


def _machine() -> str:
    """The architecture of this machine, as the layers name it."""
    return _MACHINES.get(platform.machine().lower(), platform.machine())


def _built_layers(build: Path, architecture: str) -> LayerFolders:
    layers = LayerFolders(
        deps=build / "deps" / architecture,
        domain=build / "dpp",
        migrations=build / "migrations" / architecture,
        ocr=build / "ocr" / architecture,
        url=build / "url" / architecture,
        operate=build / "operate" / architecture,
        api_docs=build / "api_docs",
    )
    for folder in vars(layers).values():
        if not folder.is_dir():
            raise DeploymentError(f"{folder} is not built: run `dpp layers --architecture {architecture}`")
    return layers
