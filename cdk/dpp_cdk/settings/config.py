"""What differs between one deployment and another; everything else is in the constructs."""

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
"""What functions on AWS run on, if nothing else is said: a fifth cheaper than x86_64 (docs/deploy.md)."""

LOCAL_MAX_WORKERS = 5
"""How many runs the local stack works on at once: it has no quota of concurrency, but one machine's cores."""

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
"""What must not stand in the clear, and the option that names the secret where it belongs."""
_TENANT = "DPP_LIFECYCLE_TENANT"
_ROOT = "DPP_WORKSPACE_ROOT"
_LOCAL = (
    *(*_SERVERS, "DPP_REDIS_CLUSTER", _KEY, _ROOT, "DPP_WORKSPACE_COMMAND", *_PASSED_ON),
    *(variable for model in _OUTSIDE for variable in model.variables()),
)


@dataclass(frozen=True)
class LayerFolders:
    """Where the built layers are."""

    deps: Path
    domain: Path
    migrations: Path
    ocr: Path
    operate: Path
    api_docs: Path


@dataclass(frozen=True)
class Deployment:
    """One deployment.

    `variables`: values by environment variable that no resource of ours provides. With `DATABASE_URL` and
    `REDIS_URL` among them there is no network, no RDS and no ElastiCache; that is the local stack.
    `alarm_email`, `domain_name` with `certificate_arn`: optional. `tracing`: X-Ray, which costs by request.
    `workspace_image`: what the containers of workspaces run; without one there are no workspaces. On the local stack
    they are processes, with their homes below `DPP_WORKSPACE_ROOT`.
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
            raise DeploymentError("domain_name and certificate_arn belong together: give both or none")
        given = [name for name in _SERVERS if self.variables.get(name)]
        if len(given) == 1:
            raise DeploymentError(
                f"{given[0]} is given alone: give DATABASE_URL and REDIS_URL, or none of them"
            )
        if self.given_servers:
            return
        for name, option in _SECRETS.items():
            if self.variables.get(name):
                raise DeploymentError(
                    f"{name} would stand in the clear in a function's environment: store it in Secrets Manager"
                    f" (docs/deploy.md, docs/lifecycle.md) and give {option}"
                )
        if Part.LIFECYCLE in self.parts and not self.variables.get("DPP_LIFECYCLE_SECRET_ARN"):
            raise DeploymentError(
                "lifecycle_tenant needs lifecycle_secret_arn: what opens GitHub, Jira and Slack (docs/lifecycle.md)"
            )

    @property
    def lambda_architecture(self) -> lambda_.Architecture:
        """The architecture as the CDK names it."""
        return _ARCHITECTURES[self.architecture]

    @property
    def given_servers(self) -> bool:
        """True when Postgres and Redis are given by URL, so that there is nothing to make, and no network to be in."""
        return bool(self.variables.get("DATABASE_URL"))

    @property
    def parts(self) -> frozenset[Part]:
        """Workspaces on the local stack, and where it is said what their containers run; the roles that carry events
        to answers where somebody pays for them."""
        workspaces = self.variables.get(_ROOT) if self.given_servers else self.workspace_image
        given = {Part.WORKSPACES: workspaces, Part.LIFECYCLE: self.variables.get(_TENANT)}
        return frozenset(part for part, value in given.items() if value)

    @property
    def has_workspaces(self) -> bool:
        """Whether workspaces can be had."""
        return Part.WORKSPACES in self.parts

    @property
    def keeps_data(self) -> bool:
        """True when deleting a stack must not delete what clients stored."""
        return self.size.keeps_data

    @property
    def retention(self) -> Retention:
        """For how long what is kept, as the functions are told."""
        return RetentionSettings.load(self.variables).retention

    @property
    def max_workers(self) -> int:
        """How many runs may be worked on at once."""
        return LOCAL_MAX_WORKERS if self.given_servers else self.size.max_workers

    @classmethod
    def from_context(cls, app: App, root: Path, environ: Mapping[str, str]) -> "Deployment":
        """Read the context (docs: `cdk/app.py`) over the stage's file; for the local stack, variables of `environ`.

        Raises DeploymentError for a wrong value, and when the layers are not built.
        """
        get = app.node.try_get_context
        local = _is_local(environ)
        stage, options = read_options(get, None if local else root / "deploy")
        architecture = str(get("architecture") or (_machine() if local else AWS_ARCHITECTURE))
        if architecture not in _ARCHITECTURES:
            raise DeploymentError(
                f"-c architecture={architecture}: choose one of {', '.join(_ARCHITECTURES)}"
            )
        if not local:
            _refuse_forgettable(environ, options.function_variables, stage)
        passed = _LOCAL if local else tuple(_SECRETS)  # secrets only to be refused
        variables = {
            **options.function_variables,
            **{name: environ[name] for name in passed if environ.get(name)},
        }
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
    """True when servers are given by URL, which only LocalStack may be told of. Raises DeploymentError."""
    given = [name for name in _SERVERS if environ.get(name)]
    if given and not environ.get("AWS_ENDPOINT_URL"):
        raise DeploymentError(
            f"{' and '.join(given)} in the environment would put the functions outside of the VPC, with passwords in"
            " the clear: unset them, or set AWS_ENDPOINT_URL, which names a LocalStack"
        )
    return bool(given)


def _refuse_forgettable(environ: Mapping[str, str], said: Mapping[str, str], stage: str) -> None:
    """A variable that is exported today and not tomorrow would take the model or the rule away.

    Raises DeploymentError.
    """
    for name in _PASSED_ON:
        if environ.get(name, "") not in ("", said.get(name)):
            option = name.removeprefix("DPP_").lower()
            raise DeploymentError(
                f"{name} in the environment would be forgotten by the next deployment: unset it, and write"
                f" {option} into deploy/{stage}.json"
            )


def _refuse_wrong(variables: Mapping[str, str]) -> None:
    """Hold what functions will read to their models. Raises DeploymentError.

    An option is looked at alone, and what the local stack takes from the environment not at all.
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
        operate=build / "operate" / architecture,
        api_docs=build / "api_docs",
    )
    for folder in (
        *(layers.deps, layers.domain, layers.migrations, layers.ocr, layers.operate, layers.api_docs),
    ):
        if not folder.is_dir():
            raise DeploymentError(f"{folder} is not built: run `dpp layers --architecture {architecture}`")
    return layers
