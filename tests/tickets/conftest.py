"""Ticket environments: one per test, or one shared by a module."""

from collections.abc import Iterator

import pytest

from tests.tickets.environment import Environment, open_environment


@pytest.fixture
def env(database_url: str, aws: None) -> Iterator[Environment]:
    with open_environment(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_env(shared_database: str, aws: None) -> Iterator[Environment]:
    """One environment for all tests of a module."""
    with open_environment(shared_database) as opened:
        yield opened
