"""A tenant's client, and the platform behind it."""

from collections.abc import Iterator

import pytest

from dpp_client import Client
from tests.client.gateway import URL, Gateway, PassingClock
from tests.support.api import ApiClient
from tests.support.world import Tenant, World


@pytest.fixture
def gateway(api: ApiClient, world: World) -> Gateway:
    return Gateway(api, world)


@pytest.fixture
def tenant(world: World) -> Tenant:
    return world.tenant()


@pytest.fixture
def clock() -> PassingClock:
    return PassingClock()


@pytest.fixture
def client(gateway: Gateway, tenant: Tenant, clock: PassingClock) -> Iterator[Client]:
    with Client(URL, tenant.token, transport=gateway.transport, clock=clock) as opened:
        yield opened
