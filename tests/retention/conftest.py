"""A house a test."""

from collections.abc import Iterator

import pytest

from dpp.platform.db.postgres import Database
from tests.retention.house import House


@pytest.fixture
def house(database_url: str) -> Iterator[House]:
    """Empty, with the rules as they are by default but for small batches."""
    database = Database(database_url)
    try:
        yield House(database_url, database)
    finally:
        database.close()
