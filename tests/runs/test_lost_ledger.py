"""Redis loses data of a tenant (D2): the loss is neither hidden by new data nor repaired in part."""

from uuid import uuid4

import pytest

from dpp.money.ledger import LedgerLost
from dpp.runs import execute
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.model import Run
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, Tenant, World, message_of


def _forget(world: World, tenant: Tenant) -> None:
    keys, client = world.ledger.keys, world.ledger.client
    client.delete(keys.balance(tenant.tenant_id), keys.credits_applied(tenant.tenant_id))


def test_a_credit_after_redis_lost_its_data_restores_the_whole_balance(world: World) -> None:
    """D2: a balance of the new credit alone would look correct, and the rest would be lost for good."""
    tenant = world.tenant()
    execute.execute(message_of(world.submit(tenant).run), "receipt", world.work_effects())
    _forget(world, tenant)

    assert world.credit(tenant.tenant_id, 300_000) == A_CREDIT - A_COST + 300_000
    assert world.position(tenant).balanced


def _revive(world: World, tenant: Tenant, run: Run) -> None:
    """Undo a settle, as a failover that loses it does: the reservation is open again, and there is no receipt."""
    keys, client = world.ledger.keys, world.ledger.client
    refunded = A_RESERVATION - A_COST
    client.decrby(keys.balance(tenant.tenant_id), refunded)
    client.delete(keys.receipt(tenant.tenant_id, run.id))
    client.hset(keys.reservation_amounts(tenant.tenant_id), run.id, str(A_RESERVATION))
    client.zadd(keys.reservation_ages(tenant.tenant_id), {run.id: 1})


def test_a_reservation_that_a_failover_brought_back_is_closed_as_its_run_ended(world: World) -> None:
    """D2: the row has the charge; without this the refund would stay reserved for ever."""
    tenant, run = world.new_run()
    execute.execute(message_of(run), "receipt", world.work_effects())
    _revive(world, tenant, run)
    assert world.position(tenant).drift_usd_micros == A_COST - A_RESERVATION

    report = reconcile(world.reconcile_effects(), world.new_database(), None).orphans

    assert (report.seen, report.ended) == (1, 1)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST
    assert world.position(tenant).balanced
    assert reconcile(world.reconcile_effects(), world.new_database(), None).orphans.seen == 0


def test_an_old_reservation_of_an_open_run_is_left_alone(world: World) -> None:
    """D2: the scan of orphans closes only reservations of ended runs."""
    tenant, run = world.new_leased_run()
    world.ledger.client.zadd(world.ledger.keys.reservation_ages(tenant.tenant_id), {run.id: 1})
    assert reconcile(world.reconcile_effects(), world.new_database(), None).orphans.seen == 0
    assert world.position(tenant).balanced


def test_the_ledger_creates_no_balance_for_a_credit_that_may_not_be_the_first(world: World) -> None:
    """D2: only Postgres knows if a tenant ever had a balance."""
    tenant = world.tenant()
    _forget(world, tenant)
    with pytest.raises(LedgerLost):
        world.ledger.credit(tenant.tenant_id, str(uuid4()), 5, opens=False)
    assert world.ledger.balance(tenant.tenant_id) is None
