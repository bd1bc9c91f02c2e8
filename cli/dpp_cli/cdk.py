"""Runs the pinned CDK command line over the project's app."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpp_cli.layers import build_deps_layer, build_domain_layer
from dpp_cli.ocr_layer import build_ocr_layer
from dpp_cli.paths import ASSEMBLY
from dpp_cli.toolchain import cdk_command, run, with_node

# What only a deployment knows. A synthesis that is only looked at has a name that can't resolve instead.
_PLACEHOLDERS = {
    "DATABASE_URL": "postgresql://database.invalid/dpp",
    "REDIS_URL": "rediss://cache.invalid:6379/0",
}


def synth(stage: str, architecture: str) -> Path:
    """Build the layers and describe the stack; return its template. Raises ToolError."""
    build_deps_layer(architecture)
    build_domain_layer()
    build_ocr_layer(architecture)
    context = ["-c", f"stage={stage}", "-c", f"architecture={architecture}"]
    cdk(["synth", "--quiet", "--output", str(ASSEMBLY), *context], _PLACEHOLDERS | dict(os.environ))
    return ASSEMBLY / f"Dpp-{stage}.template.json"


def cdk(arguments: Sequence[str], environment: Mapping[str, str], log_path: Path | None = None) -> str:
    """Run `cdk` to its end. Raises ToolError."""
    chosen = {**with_node(environment), "CDK_DISABLE_CLI_TELEMETRY": "true"}
    chosen.pop("PYTHONDONTWRITEBYTECODE", None)  # byte code halves the time of the next synthesis
    return run([*cdk_command(), *arguments, "--no-notices", "--ci"], environment=chosen, log_path=log_path)
