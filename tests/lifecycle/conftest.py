"""Environments for the flow from events to answers, on one database a module."""

from collections.abc import Iterator

import pytest

from dpp_cli.local.servers import PostgresServer
from tests.lifecycle.environment import TABLES, Environment, open_environment
from tests.support.databases import new_database
from tests.support.saved_tables import SavedTables


@pytest.fixture(scope="module")
def env_url(postgres_server: PostgresServer) -> str:
    """A database for all tests of a module; each test finds it empty."""
    return new_database(postgres_server)


@pytest.fixture
def env(env_url: str) -> Iterator[Environment]:
    """An environment of this test's own."""
    with open_environment(env_url) as opened:
        SavedTables(opened.admin, TABLES).empty()
        yield opened
