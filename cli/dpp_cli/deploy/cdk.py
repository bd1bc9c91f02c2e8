"""Runs the pinned CDK command line over the project's app."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dpp_cli.deploy.toolchain import ToolError, cdk_command, run, with_node
from dpp_cli.layers.api_docs import build_api_docs_layer
from dpp_cli.layers.migrations import build_migrations_layer
from dpp_cli.layers.ocr import build_ocr_layer
from dpp_cli.layers.operate import build_operate_layer
from dpp_cli.layers.packages import MAX_UNZIPPED_BYTES, build_deps_layer, build_domain_layer, size_bytes
from dpp_cli.layers.url import build_url_layer
from dpp_cli.paths import ASSEMBLY

_LOCAL = ("DATABASE_URL", "REDIS_URL", "DPP_DECISION_", "DPP_TIME_ZONE", "DPP_TICKET_REAPER_", "DPP_AUTH_ERROR_")
SIZES = ("dev", "prod")
_WORKER = ("packages", "domain", "ocr", "url")
"""The layers of the function with the most."""


def synth(sizes: Sequence[str], architecture: str) -> list[Path]:
    """Build the layers and describe a deployment of each size; return their assemblies. Raises ToolError."""
    build_layers(architecture)
    # Variables that name servers, models or rules belong to the local stack; on AWS they are created or in a file.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_LOCAL)}

    def one(size: str) -> Path:
        target = ASSEMBLY / size
        context = ["-c", f"size={size}", "-c", f"architecture={architecture}"]
        cdk(["synth", "--quiet", "--output", str(target), *context], environment)
        return target

    with ThreadPoolExecutor(len(sizes)) as side_by_side:
        return list(side_by_side.map(one, sizes))


def build_layers(architecture: str) -> dict[str, Path]:
    """Build every layer that is out of date; return their folders by name. Raises ToolError."""
    layers = {
        "packages": build_deps_layer(architecture),
        "domain": build_domain_layer(),
        "ocr": build_ocr_layer(architecture),
        "url": build_url_layer(architecture),
        "migrations": build_migrations_layer(architecture),
        "operate": build_operate_layer(architecture),
        "api_docs": build_api_docs_layer(),
    }
    size = sum(size_bytes(layers[name]) for name in _WORKER)
    if size > MAX_UNZIPPED_BYTES:
        raise ToolError(f"the layers of the worker have {size / 2**20:.0f} MB unpacked; Lambda takes 250 MB")
    return layers


def cdk(arguments: Sequence[str], environment: Mapping[str, str], log_path: Path | None = None) -> str:
    """Run `cdk` and wait for it. Raises ToolError."""
    chosen = {**with_node(environment), "CDK_DISABLE_CLI_TELEMETRY": "true"}
    chosen.pop("PYTHONDONTWRITEBYTECODE", None)  # byte code halves the time of the next synthesis
    return run([*cdk_command(), *arguments, "--no-notices", "--ci"], environment=chosen, log_path=log_path)
