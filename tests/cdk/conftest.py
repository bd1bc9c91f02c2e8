"""The template, synthesized once a session in this process; jsii under the CDK needs a Node, the wheel's."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dpp_cli.paths import FUNCTIONS
from dpp_cli.toolchain import with_node
from tests.cdk.template import Stack

if TYPE_CHECKING:
    from dpp_cdk.config import Deployment


@pytest.fixture(scope="session")
def node() -> Iterator[None]:
    """Node on PATH before the CDK is imported for the first time."""
    before = os.environ["PATH"]
    os.environ["PATH"] = with_node(os.environ)["PATH"]
    try:
        yield
    finally:
        os.environ["PATH"] = before


@pytest.fixture(scope="session")
def deployment(node: None, tmp_path_factory: pytest.TempPathFactory) -> "Deployment":
    """A production deployment whose layers are stand-ins: what is in them isn't asked here."""
    from dpp_cdk.config import Deployment

    layers = tmp_path_factory.mktemp("layers")
    for name in ("deps", "dpp"):
        (layers / name / "python").mkdir(parents=True)
        (layers / name / "python" / f"{name}.py").touch()
    return Deployment(
        stage="prod",
        architecture="aarch64",
        functions=FUNCTIONS,
        domain_layer=layers / "dpp",
        deps_layer=layers / "deps",
        variables={"DATABASE_URL": "postgresql://db.test/dpp", "REDIS_URL": "rediss://cache.test:6379/0"},
    )


@pytest.fixture(scope="session")
def stack(deployment: "Deployment", tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The synthesized template."""
    from aws_cdk import App

    from dpp_cdk.stack import DppStack

    app = App(outdir=str(tmp_path_factory.mktemp("cdk.out")))
    DppStack(app, "Dpp", deployment)
    return Stack(app.synth().get_stack_by_name("Dpp").template)
