"""An environment per test."""

from collections.abc import Iterator

import pytest

from dpp.platform.db.postgres import Database
from tests.retention.environment import Environment


@pytest.fixture
def env(database_url: str) -> Iterator[Environment]:
    """An empty environment with the default rules and small batches."""
    database = Database(database_url)
    try:
        yield Environment(database_url, database)
    finally:
        database.close()
