"""The two sizes, their relations, and what a wrong context value is answered with."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest


@pytest.fixture
def root(node: None, tmp_path: Path) -> Path:
    """A checkout with built layers."""
    for layer in ("deps/x86_64", "deps/aarch64", "dpp", "migrations/x86_64", "ocr/x86_64", "ocr/aarch64"):
        (tmp_path / ".dpp/build/layers" / layer).mkdir(parents=True)
    return tmp_path


def read(root: Path, context: Mapping[str, str], environ: Mapping[str, str] | None = None) -> object:
    from aws_cdk import App

    from dpp_cdk.config import Deployment

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
        ({"tracing": "maybe"}, "-c tracing=maybe: not on or off"),
        ({"architecture": "aarch64"}, "run `dpp layers --architecture aarch64`"),
    ],
)
def test_a_wrong_value_is_answered_by_name(root: Path, context: dict[str, str], told: str) -> None:
    from dpp_cdk.config import DeploymentError

    with pytest.raises(DeploymentError) as refused:
        read(root, context)
    assert told in str(refused.value)


def test_dev_is_the_default_and_gives_the_stage_its_name(root: Path) -> None:
    from dpp_cdk.config import Deployment

    default, prod = read(root, {}), read(root, {"size": "prod"})
    assert isinstance(default, Deployment)
    assert isinstance(prod, Deployment)
    assert (default.size.name, default.stage, default.keeps_data) == ("dev", "dev", False)
    assert (prod.size.name, prod.stage, prod.keeps_data) == ("prod", "prod", True)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_workers": 1}, "2 to 1000"),
        ({"availability_zones": 1}, "two zones"),
        ({"max_workers": 60}, "connections wanted"),
        ({"keeps_data": True}, "backups and a standby"),
    ],
)
def test_a_size_whose_numbers_do_not_fit_cannot_be_written(change: dict[str, object], told: str) -> None:
    from dpp_cdk.sizes import DEV

    with pytest.raises(ValueError, match=told):
        dataclasses.replace(DEV, **change)  # type: ignore[arg-type]


def test_a_node_of_the_cache_stands_in_a_zone_of_its_own() -> None:
    from dpp_cdk.sizes import PROD

    with pytest.raises(ValueError, match="zone of its own"):
        dataclasses.replace(PROD, cache=dataclasses.replace(PROD.cache, replicas=2))
