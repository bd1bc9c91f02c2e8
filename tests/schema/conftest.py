"""A connection to a migrated database with one tenant."""

from collections.abc import Iterator

import psycopg
import pytest

from dpp.platform.db.postgres import Connection
from tests.schema.rows import add_tenant


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with psycopg.connect(database_url, autocommit=True, prepare_threshold=None) as opened:
        add_tenant(opened)
        yield opened
