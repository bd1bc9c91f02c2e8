"""Desks: workspaces on real Postgres, over a provider in memory."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from dpp.workspaces.ports import Provider
from dpp_cli.local.servers import PostgresServer
from tests.workspaces.desk import Desk, opened_desk
from tests.workspaces.memory import MemoryProvider


def provider_of(fleet: MemoryProvider) -> Provider:
    """The ports of a fleet in memory."""
    return Provider(fleet.containers, fleet.volumes, fleet.archives, fleet.homes)


@pytest.fixture
def fleet() -> MemoryProvider:
    """What is really there."""
    return MemoryProvider()


@pytest.fixture
def desk(database_url: str, fleet: MemoryProvider) -> Iterator[Desk]:
    """A desk of this test's own."""
    with opened_desk(database_url, provider_of(fleet)) as opened:
        fleet.archives.now = opened.clock
        yield opened


@pytest.fixture(scope="module")
def shared_database(postgres_server: PostgresServer) -> str:
    """One for all tests of a module."""
    name = f"desk_{uuid4().hex}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template_dpp").format(sql.Identifier(name)))
    return postgres_server.url(name)
