"""The two sizes, their checks, and errors for wrong context values."""

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dpp_cdk.settings.config import Deployment

LOCAL = {
    "DATABASE_URL": "postgresql://db.test/dpp",
    "REDIS_URL": "redis://cache.test:6379/0",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:4566",
}


@pytest.fixture
def root(node: None, tmp_path: Path) -> Path:
    """A checkout with built layers."""
    for layer in ("deps", "migrations", "ocr", "url", "operate"):
        for architecture in ("x86_64", "aarch64"):
            (tmp_path / ".dpp/build/layers" / layer / architecture).mkdir(parents=True)
    for layer in ("dpp", "api_docs"):
        (tmp_path / ".dpp/build/layers" / layer).mkdir()
    return tmp_path


def read(root: Path, context: Mapping[str, str], environ: Mapping[str, str] | None = None) -> "Deployment":
    from aws_cdk import App

    from dpp_cdk.settings.config import Deployment

    return Deployment.from_context(App(context=dict(context)), root, environ or {})


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"size": "huge"}, "-c size=huge: choose one of dev, prod"),
        ({"architecture": "mips"}, "-c architecture=mips: choose one of x86_64, aarch64"),
        ({"stage": "Prod Env"}, "-c stage=Prod Env: use a name of 1 to 20 lower-case letters"),
        ({"alarm_email": "nobody"}, "-c alarm_email=nobody: not an e-mail address"),
        ({"certificate_arn": "x", "domain_name": "a.example"}, "-c certificate_arn=x: not an ARN"),
        ({"domain_name": "https://a.example"}, "-c domain_name=https://a.example: not a host name"),
        ({"domain_name": "a.example"}, "domain_name and certificate_arn belong together"),
        ({"tracing": "maybe"}, "-c tracing=maybe: choose one of on, off"),
        ({"decision_openai_base_url": "http://a.example"}, "not a URL of https"),
        ({"decision_openai_base_url": "https://a.example"}, "DPP_DECISION_OPENAI_MODEL: needed with"),
        ({"decision_temperature": "3"}, "DPP_DECISION_TEMPERATURE"),
        ({"decision_bedrock_output": "xml"}, "DPP_DECISION_BEDROCK_OUTPUT"),
        ({"stage": "prod"}, "the stage prod would have size dev"),
    ],
)
def test_a_wrong_context_value_is_refused_by_name(root: Path, context: dict[str, str], message: str) -> None:
    from dpp_cdk.settings.config import DeploymentError

    with pytest.raises(DeploymentError) as refused:
        read(root, context)
    assert message in str(refused.value)


def test_dev_is_the_default_size_and_stage(root: Path) -> None:
    default, prod = read(root, {}), read(root, {"size": "prod"})
    assert (default.size.name, default.stage, default.keeps_data) == ("dev", "dev", False)
    assert (prod.size.name, prod.stage, prod.keeps_data) == ("prod", "prod", True)


@pytest.mark.parametrize("given", [("DATABASE_URL",), ("REDIS_URL",), ("DATABASE_URL", "REDIS_URL")])
def test_server_urls_are_refused_without_a_localstack_endpoint(root: Path, given: tuple[str, ...]) -> None:
    """If exported by hand they would move a deployment's functions out of the VPC, with plain passwords."""
    from dpp_cdk.settings.config import DeploymentError

    with pytest.raises(DeploymentError) as refused:
        read(root, {"size": "prod"}, {name: LOCAL[name] for name in given})
    assert "outside of the VPC" in str(refused.value)
    assert " and ".join(given) in str(refused.value)
    assert "db.test" not in str(refused.value)


def test_server_urls_are_accepted_with_a_localstack_endpoint(root: Path) -> None:
    local = read(root, {}, LOCAL)
    assert local.given_servers
    assert local.variables == {name: LOCAL[name] for name in ("DATABASE_URL", "REDIS_URL")}


def test_the_default_architecture_is_arm_on_aws_and_this_machines_locally(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manual `cdk deploy` has the same result as `dpp deploy`."""
    from dpp_cli.deploy.commands import ARCHITECTURE

    for machine, named in (("x86_64", "x86_64"), ("arm64", "aarch64")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert read(root, {}).architecture == ARCHITECTURE == "aarch64"
        assert read(root, {}, LOCAL).architecture == named
    assert read(root, {"architecture": "x86_64"}).architecture == "x86_64"


def test_missing_layers_are_reported_with_the_command_that_builds_them(root: Path) -> None:
    from dpp_cdk.settings.config import DeploymentError

    (root / ".dpp/build/layers/deps/aarch64").rmdir()
    with pytest.raises(DeploymentError, match=r"run `dpp layers --architecture aarch64`"):
        read(root, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_workers": 1}, "2 to 1000"),
        ({"availability_zones": 1}, "two zones"),
        ({"max_workers": 60}, "connections, 112 are available"),
        ({"max_consumers": 1}, "2 to 1000"),
        ({"max_consumers": 60}, "connections, 112 are available"),
        ({"max_control": 1}, "2 to 1000"),
        ({"max_storage": 60}, "connections, 112 are available"),
        ({"max_workers": 3}, "31 concurrent functions, 29 are allowed"),
        ({"max_consumers": 3}, "30 concurrent functions, 29 are allowed"),
        ({"max_storage": 3}, "30 concurrent functions, 29 are allowed"),
        ({"functions_at_once": 17}, "29 concurrent functions, 17 are allowed"),
        ({"keeps_data": True}, "backups and a standby"),
    ],
)
def test_a_size_with_contradictory_numbers_raises(change: dict[str, object], message: str) -> None:
    from dpp_cdk.settings.sizes import DEV

    with pytest.raises(ValueError, match=message):
        dataclasses.replace(DEV, **change)  # type: ignore[arg-type]


def test_each_cache_node_needs_its_own_zone() -> None:
    from dpp_cdk.settings.sizes import PROD

    with pytest.raises(ValueError, match="zone of its own"):
        dataclasses.replace(PROD, cache=dataclasses.replace(PROD.cache, replicas=2))
