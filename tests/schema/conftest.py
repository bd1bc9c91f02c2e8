"""A connection to a migrated database with one tenant."""

import pytest

from dpp.platform.db.postgres import Connection
from tests.schema.rows import add_tenant


@pytest.fixture
def connection(connection: Connection) -> Connection:
    add_tenant(connection)
    return connection
