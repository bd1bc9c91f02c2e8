"""compose.yaml can't be run where there is no Docker, but it can be held to what the `dpp` command does."""

from typing import Any

import pytest
import yaml

from dpp_cli.paths import ROOT


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services of the file."""
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services


def test_it_has_the_parts_of_the_local_stack_each_with_a_health_check(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "valkey", "localstack"}
    assert all("healthcheck" in service for service in services.values())


def test_localstack_is_the_release_that_we_lock(services: dict[str, Any]) -> None:
    locked = (ROOT / "cli" / "localstack" / "pyproject.toml").read_text()
    version = services["localstack"]["image"].rpartition(":")[2]
    assert f"localstack-core[runtime]=={version}" in locked


def test_nothing_listens_beyond_loopback(services: dict[str, Any]) -> None:
    assert "listen_addresses=127.0.0.1" in services["postgres"]["command"]
    assert "--bind 127.0.0.1" in services["valkey"]["command"]
    assert services["localstack"]["environment"]["GATEWAY_LISTEN"].startswith("127.0.0.1:")


def test_budgets_are_never_evicted(services: dict[str, Any]) -> None:
    """D2."""
    assert "--maxmemory-policy noeviction" in services["valkey"]["command"]
