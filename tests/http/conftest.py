"""The HTTP functions behind proxies, for tests in which a dependency fails."""

from collections.abc import Iterator

import pytest

from api_docs.handler import PACKAGE, wiring
from dpp_cli.layers import api_docs
from tests.http.faulty import Faulty, faulty_functions
from tests.http.state import work
from tests.support.api import ApiClient, a_body
from tests.support.world import World


@pytest.fixture(scope="session", autouse=True)
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the layer with the API's description where its function finds it."""
    folder = tmp_path_factory.mktemp("layer")
    api_docs.write(folder / PACKAGE)
    wiring.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    wiring.cache_clear()


@pytest.fixture
def broken(api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """The functions behind proxies that work; a submit and a read have loaded the scripts."""
    # These tests measure how long a client waits.
    monkeypatch.setattr("dpp.platform.db.postgres._CONNECT_TIMEOUT_SECONDS", 3)
    with faulty_functions(world, monkeypatch) as functions:
        warm = world.tenant()
        api.submit(warm, a_body())
        api.read(warm, "no-run")
        work(world)
        yield functions
