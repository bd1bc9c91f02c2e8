"""The HTTP functions behind proxies, for the tests that take a dependency away."""

from collections.abc import Iterator

import pytest

from tests.api import ApiClient, a_body
from tests.http.faulty import Faulty, faulty_functions
from tests.http.state import work
from tests.world import World


@pytest.fixture
def broken(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """The functions behind proxies, everything still whole; scripts are loaded by a submit and a read."""
    # How long a client waits is what these tests tell.
    monkeypatch.setattr("dpp.platform.postgres._CONNECT_TIMEOUT_SECONDS", 3)
    with faulty_functions(world, monkeypatch) as functions:
        warm = world.tenant()
        api.submit(warm, a_body())
        api.read(warm, "no-run")
        work(world)
        yield functions
