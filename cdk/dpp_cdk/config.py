"""What differs between one deployment and another; everything else is in the constructs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from dpp_cdk.sizes import SIZES, Size

_ARCHITECTURES = {"x86_64": lambda_.Architecture.X86_64, "aarch64": lambda_.Architecture.ARM_64}
_SECRETS = ("DATABASE_URL", "REDIS_URL", "DPP_DECISION_OPENAI_API_KEY")
_PASSED_THROUGH = (
    *_SECRETS,
    "DPP_REDIS_CLUSTER",
    "DPP_DECISION_BEDROCK_MODEL_ID",
    "DPP_DECISION_OPENAI_BASE_URL",
    "DPP_DECISION_OPENAI_MODEL",
)
_STAGE = re.compile(r"[a-z][a-z0-9-]{0,19}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_ARN = re.compile(r"arn:aws[a-z-]*:[a-z0-9-]+:[a-z0-9-]*:\d*:\S+")
_DOMAIN = re.compile(r"([a-z0-9-]+\.)+[a-z]{2,}")
_SWITCH = re.compile(r"on|off")


class DeploymentError(Exception):
    """The deployment can't be described: the message names what is missing or wrong, and how to get it right."""


@dataclass(frozen=True)
class LayerFolders:
    """Where the built layers are."""

    deps: Path
    domain: Path
    migrations: Path
    ocr: Path
    operate: Path


@dataclass(frozen=True)
class Deployment:
    """One deployment.

    `variables`: values by environment variable that no resource of ours provides. With `DATABASE_URL` and
    `REDIS_URL` among them there is no network, no RDS and no ElastiCache; that is the local stack.
    `alarm_email`, `domain_name` with `certificate_arn`: optional. `tracing`: X-Ray, which costs by request.
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
    tracing: bool = False

    def __post_init__(self) -> None:
        if bool(self.domain_name) != bool(self.certificate_arn):
            raise DeploymentError("domain_name and certificate_arn belong together: give both or none")
        given = [name for name in ("DATABASE_URL", "REDIS_URL") if self.variables.get(name)]
        if len(given) == 1:
            raise DeploymentError(
                f"{given[0]} is given alone: give DATABASE_URL and REDIS_URL, or none of them"
            )
        if not self.given_servers and self.variables.get("DPP_DECISION_OPENAI_API_KEY"):
            raise DeploymentError(
                "DPP_DECISION_OPENAI_API_KEY would stand in the clear in a function's environment: store it in "
                'Secrets Manager as {"api_key": "…"} and give -c openai_secret_arn=…'
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
    def keeps_data(self) -> bool:
        """True when deleting a stack must not delete what clients stored."""
        return self.size.keeps_data

    @classmethod
    def from_context(cls, app: App, root: Path, environ: Mapping[str, str]) -> "Deployment":
        """Read the context (docs: `cdk/app.py`), and the variables that are passed through from `environ`.

        Raises DeploymentError for a wrong value, and when the layers are not built.
        """
        context = _Context(app.node.try_get_context)
        size = SIZES[context.one_of("size", tuple(SIZES), default="dev")]
        architecture = context.one_of("architecture", tuple(_ARCHITECTURES), default="x86_64")
        return cls(
            stage=context.matching("stage", _STAGE, "a short name in lower case", default=size.name),
            size=size,
            architecture=architecture,
            functions=root / "functions",
            layers=_built_layers(root / ".dpp" / "build" / "layers", architecture),
            openapi_document=root / "docs" / "openapi.json",
            variables={name: environ[name] for name in _PASSED_THROUGH if environ.get(name)},
            alarm_email=context.matching("alarm_email", _EMAIL, "an e-mail address"),
            domain_name=context.matching("domain_name", _DOMAIN, "a host name"),
            certificate_arn=context.matching("certificate_arn", _ARN, "an ARN"),
            openai_secret_arn=context.matching("openai_secret_arn", _ARN, "an ARN"),
            tracing=context.matching("tracing", _SWITCH, "on or off", default="off") == "on",
        )


@dataclass(frozen=True)
class _Context:
    """Values of `-c name=value`, refused by name where they are wrong."""

    get: Callable[[str], object]

    def one_of(self, name: str, choices: tuple[str, ...], *, default: str) -> str:
        value = str(self.get(name) or default)
        if value not in choices:
            raise DeploymentError(f"-c {name}={value}: choose one of {', '.join(choices)}")
        return value

    def matching(self, name: str, pattern: re.Pattern[str], what: str, *, default: str = "") -> str:
        value = str(self.get(name) or default)
        if value and not pattern.fullmatch(value):
            raise DeploymentError(f"-c {name}={value}: not {what}")
        return value


def _built_layers(build: Path, architecture: str) -> LayerFolders:
    layers = LayerFolders(
        deps=build / "deps" / architecture,
        domain=build / "dpp",
        migrations=build / "migrations" / architecture,
        ocr=build / "ocr" / architecture,
        operate=build / "operate" / architecture,
    )
    for folder in (layers.deps, layers.domain, layers.migrations, layers.ocr, layers.operate):
        if not folder.is_dir():
            raise DeploymentError(f"{folder} is not built: run `dpp layers --architecture {architecture}`")
    return layers
