"""The API of workspaces for tests."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from dpp.platform.db.postgres import Database
from tests.workspaces.api.client import WorkspacesApi
from tests.workspaces.environment import Environment


@pytest.fixture
def client(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API over the environment, with its queues."""
    with closing(WorkspacesApi(env.database, env.url, monkeypatch, env.sqs)) as made:
        yield made


@pytest.fixture
def refusing(shared_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API for requests that are refused, which must leave neither a workspace nor a hint."""
    with (
        closing(Database(shared_database)) as database,
        closing(WorkspacesApi(database, shared_database, monkeypatch)) as made,
    ):
        yield made
        assert made.sql("SELECT count(*) FROM workspaces") == [(0,)]
        assert made.hinted == []
