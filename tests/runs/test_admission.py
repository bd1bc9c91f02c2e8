"""A balance that no ledger move can have left is an error of the cache (RUN-9, D2)."""

import pytest

from dpp.platform.errors import RedisUnavailable
from dpp.runs.admission import observe
from tests.support.world import World


@pytest.mark.parametrize("text", ["1.5", "1e+14", "", "abc"])
def test_a_corrupt_balance_is_a_503_and_moves_nothing(world: World, text: str) -> None:
    """RUN-9: not a 500, and no guess; for a submit and a read."""
    tenant = world.tenant()
    key = world.ledger.keys.balance(tenant.tenant_id)
    world.ledger.client.set(key, text)
    with pytest.raises(RedisUnavailable):
        world.submit(tenant)
    with pytest.raises(RedisUnavailable):
        observe(world.ledger, tenant.caller)
    assert world.ledger.client.get(key) == text
