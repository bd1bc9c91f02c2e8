"""An environment per test."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from dpp.platform.db.postgres import Database
from tests.retention.environment import Environment


@pytest.fixture
def env(database_url: str) -> Iterator[Environment]:
    """An empty environment with the default rules and small batches."""
    with closing(Database(database_url)) as database:
        yield Environment(database_url, database)
