"""The two sizes, their relations, and what a wrong context value is answered with."""

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
    for layer in ("deps", "migrations", "ocr", "operate"):
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
    ("context", "told"),
    [
        ({"size": "huge"}, "-c size=huge: choose one of dev, prod"),
        ({"architecture": "mips"}, "-c architecture=mips: choose one of x86_64, aarch64"),
        ({"stage": "Prod Env"}, "-c stage=Prod Env: not a short name in lower case"),
        ({"alarm_email": "nobody"}, "-c alarm_email=nobody: not an e-mail address"),
        ({"certificate_arn": "x", "domain_name": "a.example"}, "-c certificate_arn=x: not an ARN"),
        ({"domain_name": "https://a.example"}, "-c domain_name=https://a.example: not a host name"),
        ({"domain_name": "a.example"}, "domain_name and certificate_arn belong together"),
        ({"tracing": "maybe"}, "-c tracing=maybe: choose one of on, off"),
        ({"decision_openai_base_url": "http://a.example"}, "not a URL of https"),
        ({"stage": "prod"}, "the stage prod would be of size dev"),
    ],
)
def test_a_wrong_value_is_answered_by_name(root: Path, context: dict[str, str], told: str) -> None:
    from dpp_cdk.settings.config import DeploymentError

    with pytest.raises(DeploymentError) as refused:
        read(root, context)
    assert told in str(refused.value)


def test_dev_is_the_default_and_gives_the_stage_its_name(root: Path) -> None:
    default, prod = read(root, {}), read(root, {"size": "prod"})
    assert (default.size.name, default.stage, default.keeps_data) == ("dev", "dev", False)
    assert (prod.size.name, prod.stage, prod.keeps_data) == ("prod", "prod", True)


@pytest.mark.parametrize("given", [("DATABASE_URL",), ("REDIS_URL",), ("DATABASE_URL", "REDIS_URL")])
def test_servers_of_a_local_stack_are_refused_where_no_localstack_is_meant(
    root: Path, given: tuple[str, ...]
) -> None:
    """Exported by hand they would move a deployment's functions out of the VPC, passwords in the clear."""
    from dpp_cdk.settings.config import DeploymentError

    with pytest.raises(DeploymentError) as refused:
        read(root, {"size": "prod"}, {name: LOCAL[name] for name in given})
    assert "outside of the VPC" in str(refused.value)
    assert " and ".join(given) in str(refused.value)
    assert "db.test" not in str(refused.value)


def test_servers_by_url_are_taken_beside_a_localstack(root: Path) -> None:
    local = read(root, {}, LOCAL)
    assert local.given_servers
    assert local.variables == {name: LOCAL[name] for name in ("DATABASE_URL", "REDIS_URL")}


def test_on_aws_it_is_arm_unless_said_and_locally_this_machine(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `cdk deploy` by hand makes what `dpp deploy` makes."""
    from dpp_cli.deploy.commands import ARCHITECTURE

    for machine, named in (("x86_64", "x86_64"), ("arm64", "aarch64")):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        assert read(root, {}).architecture == ARCHITECTURE == "aarch64"
        assert read(root, {}, LOCAL).architecture == named
    assert read(root, {"architecture": "x86_64"}).architecture == "x86_64"


def test_layers_that_are_not_built_are_asked_for_by_architecture(root: Path) -> None:
    from dpp_cdk.settings.config import DeploymentError

    (root / ".dpp/build/layers/deps/aarch64").rmdir()
    with pytest.raises(DeploymentError, match=r"run `dpp layers --architecture aarch64`"):
        read(root, {})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_workers": 1}, "2 to 1000"),
        ({"availability_zones": 1}, "two zones"),
        ({"max_workers": 60}, "connections wanted"),
        ({"max_consumers": 1}, "2 to 1000"),
        ({"max_consumers": 60}, "connections wanted"),
        ({"max_control": 1}, "2 to 1000"),
        ({"max_storage": 60}, "connections wanted"),
        ({"max_workers": 3}, "31 functions at once at the worst, 29 allowed"),
        ({"max_consumers": 3}, "30 functions at once at the worst, 29 allowed"),
        ({"max_storage": 3}, "30 functions at once at the worst, 29 allowed"),
        ({"functions_at_once": 17}, "29 functions at once at the worst, 17 allowed"),
        ({"keeps_data": True}, "backups and a standby"),
    ],
)
def test_a_size_whose_numbers_do_not_fit_cannot_be_written(change: dict[str, object], told: str) -> None:
    from dpp_cdk.settings.sizes import DEV

    with pytest.raises(ValueError, match=told):
        dataclasses.replace(DEV, **change)  # type: ignore[arg-type]


def test_a_node_of_the_cache_stands_in_a_zone_of_its_own() -> None:
    from dpp_cdk.settings.sizes import PROD

    with pytest.raises(ValueError, match="zone of its own"):
        dataclasses.replace(PROD, cache=dataclasses.replace(PROD.cache, replicas=2))
