"""Environments for the flow from events to answers, on one database a module."""

from collections.abc import Iterator

import pytest

from tests.lifecycle.environment import TABLES, Environment, open_environment
from tests.lifecycle.poll_environment import PollEnvironment, open_poll_environment
from tests.support.saved_tables import SavedTables


@pytest.fixture
def env(shared_database: str) -> Iterator[Environment]:
    """An environment of this test's own, on the module's database, which is empty."""
    with open_environment(shared_database) as opened:
        SavedTables(opened.admin, TABLES).empty()
        yield opened


@pytest.fixture
def post(database_url: str) -> Iterator[PollEnvironment]:
    with open_poll_environment(database_url) as opened:
        yield opened
