"""Fixtures: workspaces on real Postgres, over a provider in memory."""

from collections.abc import Iterator

import pytest

from tests.workspaces.environment import Environment, open_environment
from tests.workspaces.memory_provider import MemoryProvider, provider_of


@pytest.fixture
def fleet() -> MemoryProvider:
    return MemoryProvider()


@pytest.fixture
def env(database_url: str, fleet: MemoryProvider) -> Iterator[Environment]:
    with open_environment(database_url, provider_of(fleet)) as opened:
        fleet.archives.now = opened.clock
        yield opened
