"""Deployments, each synthesized once per session by one of its processes; jsii uses the Node of its wheel."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dpp_cli.deploy.toolchain import with_node
from dpp_cli.paths import FUNCTIONS, ROOT
from tests.cdk.template import Assembly, Stack
from tests.support.once import made_once, shared_folder

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

LOCAL = {"DATABASE_URL": "postgresql://db.test/dpp", "REDIS_URL": "redis://cache.test:6379/0"}
LIFECYCLE = {
    "DPP_LIFECYCLE_TENANT": "acme",
    "DPP_LIFECYCLE_SECRET_ARN": "arn:aws:secretsmanager:us-east-1:123456789012:secret:dpp-lifecycle-AbCdEf",
    "DPP_GITHUB_LOGIN": "acme-bot",
    "DPP_JIRA_URL": "https://acme.atlassian.net",
    "DPP_JIRA_JQL": "assignee = currentUser()",
    "DPP_SLACK_CHANNEL": "C1",
}
"""Variables that add the lifecycle roles."""
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/dpp/workspace:1"
_LAYERS = ("deps", "domain", "migrations", "ocr", "url", "operate", "api_docs")
type Describe = Callable[["Deployment"], Assembly]


@pytest.fixture(scope="session")
def node() -> Iterator[None]:
    """Put Node on PATH before the CDK is first imported."""
    before = os.environ["PATH"]
    os.environ["PATH"] = with_node(os.environ)["PATH"]
    try:
        yield
    finally:
        os.environ["PATH"] = before


@pytest.fixture(scope="session")
def deployment(node: None, tmp_path_factory: pytest.TempPathFactory) -> "Deployment":
    """A production deployment with empty layers: their content is not tested here."""
    from dpp_cdk.settings.config import Deployment, LayerFolders
    from dpp_cdk.settings.sizes import PROD

    layers = shared_folder(tmp_path_factory) / "layers"
    for name in _LAYERS:
        (layers / name / "python").mkdir(parents=True, exist_ok=True)
        (layers / name / "python" / f"{name}.py").touch()
    return Deployment(
        stage="prod",
        size=PROD,
        architecture="aarch64",
        functions=FUNCTIONS,
        layers=LayerFolders(*(layers / name for name in _LAYERS)),
        openapi_document=ROOT / "docs" / "openapi.json",
        alarm_email="ops@example.com",
        workspace_image=IMAGE,
        variables=LIFECYCLE,
    )


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory, node: None) -> Describe:
    """Synthesizes a deployment, or returns what another test made of an equal one."""
    folder = shared_folder(tmp_path_factory)

    def described(deployment: "Deployment") -> Assembly:
        # Its variables are no part of its repr.
        key = repr((deployment, sorted(deployment.variables.items())))
        name = f"cdk-{sha256(key.encode()).hexdigest()}"
        made = json.loads(made_once(folder / f"{name}.json", partial(_synthesized, deployment, folder / name)))
        return Assembly(made, report=folder / name / "validation-report.json")

    return described


def _synthesized(deployment: "Deployment", out: Path) -> str:
    from aws_cdk import App

    from dpp_cdk.nag import check
    from dpp_cdk.stacks.deployment import describe

    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(outdir=str(out), context=context)
    describe(app, deployment)
    if not deployment.given_servers:
        check(app)  # raises at a finding
    stacks = app.synth().stacks
    return json.dumps({one.stack_name.removeprefix(f"Dpp-{deployment.stage}-"): one.template for one in stacks})


@pytest.fixture(scope="session")
def prod(described: Describe, deployment: "Deployment") -> Assembly:
    """`-c size=prod`."""
    return described(deployment)


@pytest.fixture(scope="session")
def dev(described: Describe, deployment: "Deployment") -> Assembly:
    """`-c size=dev`."""
    import dataclasses

    from dpp_cdk.settings.sizes import DEV

    return described(dataclasses.replace(deployment, stage="dev", size=DEV, alarm_email=""))


@pytest.fixture(scope="session")
def local(described: Describe, deployment: "Deployment") -> Assembly:
    """The local stack: servers by URL, everything else the same constructs."""
    import dataclasses

    from dpp_cdk.settings.sizes import DEV

    variables: Mapping[str, str] = {**LOCAL, **LIFECYCLE, "DPP_WORKSPACE_ROOT": "/var/lib/dpp/workspaces"}
    return described(dataclasses.replace(deployment, stage="local", size=DEV, variables=variables))


@pytest.fixture(scope="session")
def stack(prod: Assembly) -> Stack:
    """The whole production deployment as one template."""
    return prod.whole
