"""Deploys the project's own CDK app to the local stack, with the plain CDK command line.

Skipped while nothing changed: the functions, the layers, the app, the URLs and the LocalStack it went to.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from dpp_cli.layers import build_deps_layer, build_domain_layer, machine_architecture, size_bytes
from dpp_cli.local.localstack import ACCOUNT, REGION, client_environment
from dpp_cli.local.parts import LOCALSTACK
from dpp_cli.local.state import StateStore
from dpp_cli.paths import FUNCTIONS, ROOT
from dpp_cli.toolchain import cdk_command, fingerprint, run, with_node

STAGE = "dev"
_STACK = f"Dpp-{STAGE}"


def build_layers() -> str:
    """Build both layers where they are out of date; say their size. Raises ToolError."""
    sizes = [size_bytes(layer) / 2**20 for layer in (build_deps_layer(), build_domain_layer())]
    return f"packages {sizes[0]:.0f} MB, domain {sizes[1]:.1f} MB"


def bootstrap(store: StateStore) -> str:
    """Give this LocalStack the CDK's bucket and roles, once. Raises ToolError."""
    where = _whereabouts(store)
    if store.state.bootstrapped == where:
        return "was done"
    _cdk(store, ["bootstrap", f"aws://{ACCOUNT}/{REGION}"], "bootstrap.log")
    store.set(bootstrapped=where)
    return f"aws://{ACCOUNT}/{REGION}"


def is_current(store: StateStore) -> bool:
    """True when what would be deployed is what was deployed, to this very LocalStack."""
    return store.state.deployed == _fingerprint(store)


def synth(store: StateStore) -> str:
    """Describe the stack for this machine and these URLs. Raises ToolError."""
    context = ["-c", f"stage={STAGE}", "-c", f"architecture={machine_architecture()}"]
    _cdk(store, ["synth", "--quiet", "--output", str(_assembly(store)), *context], "synth.log")
    return _STACK


def deploy(store: StateStore) -> str:
    """Deploy what was synthesized, and keep the outputs. Raises ToolError."""
    fingerprint_before = _fingerprint(store)  # an edit during the deploy must lead to another one
    outputs = store.state_dir / "outputs.json"
    options = ["--require-approval", "never", "--method", "direct", "--progress", "events"]
    command = ["deploy", "--app", str(_assembly(store)), *options, "--outputs-file", str(outputs)]
    _cdk(store, command, "deploy.log")
    store.set(outputs=json.loads(outputs.read_text())[_STACK], deployed=fingerprint_before)
    return store.state.api_base_url


def _cdk(store: StateStore, arguments: list[str], log_name: str) -> None:
    environment = {
        **with_node(os.environ),
        **client_environment(store.state.aws_endpoint_url),
        "DATABASE_URL": store.state.database_url,
        "REDIS_URL": store.state.redis_url,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):  # else a developer's own account could be meant
        environment.pop(name, None)
    run(
        [*cdk_command(), *arguments, "--no-notices", "--ci"],
        environment=environment,
        log_path=store.state_dir / log_name,
    )


def _assembly(store: StateStore) -> Path:
    return store.state_dir / "cdk.out"


def _whereabouts(store: StateStore) -> str:
    part = store.state.parts.get(LOCALSTACK)
    return f"{store.state.aws_endpoint_url} {part.birth if part else ''}"


def _fingerprint(store: StateStore) -> str:
    state = store.state
    return " ".join([fingerprint(_inputs()), state.database_url, state.redis_url, _whereabouts(store)])


def _inputs() -> Iterator[Path]:
    folders = (FUNCTIONS, ROOT / "cdk", ROOT / "layers")
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
    yield ROOT / "cdk.json"
    yield ROOT / "uv.lock"
