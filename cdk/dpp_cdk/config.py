"""What differs between one deployment and another; everything else is in the constructs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

_ARCHITECTURES = {"x86_64": lambda_.Architecture.X86_64, "aarch64": lambda_.Architecture.ARM_64}
_PASSED_THROUGH = (
    "DATABASE_URL",
    "REDIS_URL",
    "DPP_REDIS_CLUSTER",
    "DPP_DECISION_BEDROCK_MODEL_ID",
    "DPP_DECISION_OPENAI_BASE_URL",
    "DPP_DECISION_OPENAI_API_KEY",
    "DPP_DECISION_OPENAI_MODEL",
)


class DeploymentError(Exception):
    """The deployment can't be described: the message names what is missing and how to get it."""


@dataclass(frozen=True)
class Deployment:
    """One deployment of the stack.

    `variables`: values that no resource of the stack provides, by environment variable. Locally the URLs
    of Postgres and Valkey; on AWS they come from RDS and ElastiCache constructs.
    """

    stage: str
    architecture: str
    functions: Path
    domain_layer: Path
    deps_layer: Path
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def lambda_architecture(self) -> lambda_.Architecture:
        """The architecture as the CDK names it."""
        return _ARCHITECTURES[self.architecture]

    @property
    def keeps_data(self) -> bool:
        """True when deleting the stack must not delete what clients stored."""
        return self.stage == "prod"

    @classmethod
    def from_context(cls, app: App, root: Path, environ: Mapping[str, str]) -> "Deployment":
        """Read `-c stage=…` and `-c architecture=…`, and the variables named above from `environ`.

        Raises DeploymentError when the layers are not built.
        """
        stage = str(app.node.try_get_context("stage") or "dev")
        architecture = str(app.node.try_get_context("architecture") or "x86_64")
        if architecture not in _ARCHITECTURES:
            raise DeploymentError(f"architecture {architecture}: choose one of {', '.join(_ARCHITECTURES)}")
        layers = root / ".dpp" / "build" / "layers"
        domain_layer, deps_layer = layers / "dpp", layers / "deps" / architecture
        for layer in (domain_layer, deps_layer):
            if not layer.is_dir():
                raise DeploymentError(f"{layer} is not built: run `dpp layers --architecture {architecture}`")
        return cls(
            stage=stage,
            architecture=architecture,
            functions=root / "functions",
            domain_layer=domain_layer,
            deps_layer=deps_layer,
            variables={name: environ[name] for name in _PASSED_THROUGH if environ.get(name)},
        )
