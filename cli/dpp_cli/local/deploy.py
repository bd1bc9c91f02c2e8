"""Deploys the project's own CDK app to the local stack, with the plain CDK command line.

Skipped if functions, layers, app, URLs and LocalStack are unchanged.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from dpp_cli.deploy import cdk
from dpp_cli.deploy.toolchain import fingerprint
from dpp_cli.errors import StackError
from dpp_cli.layers.api_docs import sources as api_docs_sources
from dpp_cli.layers.operate import sources as operate_sources
from dpp_cli.layers.packages import machine_architecture, size_bytes
from dpp_cli.local import events
from dpp_cli.local.localstack import ACCOUNT, REGION, client_environment, client_session
from dpp_cli.local.parts import LOCALSTACK
from dpp_cli.local.state import StateStore
from dpp_cli.paths import FUNCTIONS, MIGRATIONS, ROOT

STAGE = "dev"
_STACKS = (f"Dpp-{STAGE}-data", f"Dpp-{STAGE}-app")  # in the order of their deployment
_QUALIFIER = "hnb659fds"  # the CDK's own, the same in every account
_ASSET_BUCKET = f"cdk-{_QUALIFIER}-assets-{ACCOUNT}-{REGION}"
_BOOTSTRAP_VERSION = "30"  # the CLI wants at least what the template asks for, which is 6


def build_layers() -> str:
    """Build the layers where they are out of date; say their size. Raises ToolError."""
    layers = cdk.build_layers(machine_architecture())
    return ", ".join(f"{name} {size_bytes(folder) / 2**20:.1f} MB" for name, folder in layers.items())


def bootstrap(store: StateStore) -> str:
    """Give this LocalStack what `cdk deploy` looks for, once. Raises StackError.

    `cdk bootstrap` makes a stack of roles, a key, a repository, a bucket and a version parameter, which takes
    16 s here on a quiet machine; the last two are all that LocalStack ever looks at, and take two calls.
    """
    where = _whereabouts(store)
    if store.state.bootstrapped == where:
        return "was done"
    endpoint = store.state.aws_endpoint_url
    session = client_session(endpoint)
    try:
        session.client("s3", endpoint_url=endpoint).create_bucket(Bucket=_ASSET_BUCKET)
        session.client("ssm", endpoint_url=endpoint).put_parameter(
            Name=f"/cdk-bootstrap/{_QUALIFIER}/version", Value=_BOOTSTRAP_VERSION, Type="String", Overwrite=True
        )
    except (BotoCoreError, ClientError) as error:
        raise StackError(f"can't prepare LocalStack for the CDK: {error}") from error
    store.set(bootstrapped=where)
    return _ASSET_BUCKET


def is_current(store: StateStore) -> bool:
    """True when what would be deployed is what was deployed, to this very LocalStack."""
    return store.state.deployed == _fingerprint(store)


def synth(store: StateStore) -> str:
    """Describe the stack for this machine and these URLs. Raises ToolError."""
    context = ["-c", "size=dev", "-c", f"stage={STAGE}", "-c", f"architecture={machine_architecture()}"]
    _cdk(store, ["synth", "--quiet", "--output", str(_assembly(store)), *context], "synth.log")
    return ", ".join(_STACKS)


def shape_changed(store: StateStore) -> bool:
    """True when more than code differs from what this LocalStack has.

    LocalStack reports an update of most resources as done without doing it, and deletes a stage with the
    deployment that the stage has just been moved off; only a fresh one then has what the template says.
    """
    return store.state.shape not in {"", _shape(store)}


def deploy(store: StateStore) -> str:
    """Deploy what was synthesized, and keep the outputs. Raises ToolError."""
    fingerprint_before = _fingerprint(store)  # an edit during the deploy must lead to another one
    outputs = store.state_dir / "outputs.json"
    options = ["--require-approval", "never", "--method", "direct", "--progress", "events"]
    command = ["deploy", *_STACKS, "--app", str(_assembly(store)), *options, "--outputs-file", str(outputs)]
    _cdk(store, command, "deploy.log")
    given = json.loads(outputs.read_text())
    # What one stack passes to the other is among them, under names that the CDK made.
    merged = {name: value for stack in _STACKS for name, value in given[stack].items() if "Export" not in name}
    store.set(outputs=merged, deployed=fingerprint_before, shape=_shape(store))
    events.emit(store.state_dir, "deployed", stacks=list(_STACKS))
    return store.state.api_base_url


_STARTING = "http://127.0.0.1"
"""LocalStack while it starts: a synthesis asks nobody, and only has to be told that AWS is not meant."""


def _cdk(store: StateStore, arguments: list[str], log_name: str) -> None:
    environment = {
        **os.environ,
        **client_environment(store.state.aws_endpoint_url or _STARTING),
        "DATABASE_URL": store.state.database_url,
        "REDIS_URL": store.state.redis_url,
        "DPP_WORKSPACE_ROOT": str(workspaces(store.state_dir)),
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):  # a developer's own account must not be meant
        environment.pop(name, None)
    cdk.cdk(arguments, environment, store.state_dir / log_name)


def workspaces(state_dir: Path) -> Path:
    """Return the folders of workspace homes and of the logs of their containers, which run as local processes."""
    return state_dir / "workspaces"


def _assembly(store: StateStore) -> Path:
    return store.state_dir / "cdk.out"


def _shape(store: StateStore) -> str:
    """The templates' hash, with every asset's hash and the hash of the migrations left out of them."""
    templates = "".join((_assembly(store) / f"{name}.template.json").read_text() for name in _STACKS)
    return hashlib.sha256(re.sub(r"[0-9a-f]{64}", "", templates).encode()).hexdigest()


def _whereabouts(store: StateStore) -> str:
    part = store.state.parts.get(LOCALSTACK)
    return f"{store.state.aws_endpoint_url} {part.birth if part else ''}"


def _fingerprint(store: StateStore) -> str:
    state = store.state
    said = hashlib.sha256(json.dumps(_said(os.environ)).encode()).hexdigest()
    return " ".join([fingerprint(_inputs()), said, state.database_url, state.redis_url, _whereabouts(store)])


def _said(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the environment that affects functions; only its hash is stored, since it contains secrets."""
    return sorted((n, v) for n, v in environ.items() if n.startswith("DPP_") and n != "DPP_LOCAL_STATE")


def _inputs() -> Iterator[Path]:
    folders = (FUNCTIONS, ROOT / "cdk", ROOT / "layers", MIGRATIONS)
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
    yield from operate_sources()
    yield from api_docs_sources()
    yield ROOT / "cdk.json"
    yield ROOT / "uv.lock"
    yield ROOT / "cli" / "tessdata" / "package-lock.json"
