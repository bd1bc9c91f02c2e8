"""A lost cache loses no money (D2): the ledger is rebuilt from Postgres alone, also under traffic."""

import threading
from dataclasses import replace
from uuid import uuid4

import pytest

from dpp.money.books import Books
from dpp.money.ledger import LedgerLost
from dpp.money.rebuild import RebuildReason, is_lost, rebuild
from dpp.runs import execute, store
from dpp.runs.jobs import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.store import Guard
from dpp.runs.submit import submit
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, Tenant, World, a_request, message_of


def _rebuild(world: World, tenant: Tenant) -> int:
    with world.new_database().connection() as connection:
        return rebuild(connection, world.ledger, tenant.tenant_id, RebuildReason.OPERATOR).balance_usd_micros


def test_a_lost_ledger_is_restored_to_the_micro(world: World) -> None:
    """D2: credits, charges and open reservations are all in Postgres; open runs go on and settle."""
    tenant = world.tenant()
    done, open_run = world.submit(tenant).run, world.submit(tenant).run
    execute.execute(message_of(done), "receipt", world.work_effects())
    before = world.position(tenant)
    assert before.balanced

    world.lose_redis(tenant)
    assert _rebuild(world, tenant) == before.balance_usd_micros
    execute.execute(message_of(open_run), "receipt", world.work_effects())
    after = world.position(tenant)
    assert after.balance_usd_micros == A_CREDIT - 2 * A_COST
    assert after.balanced


def test_a_rebuild_of_a_correct_ledger_changes_nothing(world: World) -> None:
    """D2: with runs that are open, claimed, settled but not committed, or reserved but not inserted."""
    tenant = world.tenant()
    world.submit(tenant)
    settled = world.leased(tenant)
    guard = Guard(Status.PROCESSING, lease_token=settled.lease_token)
    claimed = world.using(store.claim, settled, guard, reap.timed_out(settled), finalize_token="t")
    assert claimed is not None
    world.ledger.settle(tenant.tenant_id, settled.id, 5_000)
    world.ledger.reserve(tenant.tenant_id, str(uuid4()), 1_000, 0)
    balance = world.ledger.balance(tenant.tenant_id)
    assert _rebuild(world, tenant) == balance
    assert _rebuild(world, tenant) == balance
    assert balance == A_CREDIT - A_RESERVATION - 5_000 - 1_000


def test_a_leftover_reservation_of_an_ended_run_is_removed(world: World) -> None:
    """D2: a failover that lost the settle restores the reservation; the rebuild removes it."""
    tenant, run = world.new_run()
    execute.execute(message_of(run), "receipt", world.work_effects())
    keys = world.ledger.keys
    world.ledger.client.delete(keys.receipt(tenant.tenant_id, run.id))
    world.ledger.client.hset(keys.reservation_amounts(tenant.tenant_id), run.id, str(A_RESERVATION))
    world.ledger.client.zadd(keys.reservation_ages(tenant.tenant_id), {run.id: 1})
    world.ledger.client.decrby(keys.balance(tenant.tenant_id), A_RESERVATION - A_COST)
    assert not world.position(tenant).balanced
    _rebuild(world, tenant)
    assert world.position(tenant).balanced
    assert world.ledger.reservations_older_than(tenant.tenant_id, -1) == []


def test_a_settle_without_a_ledger_waits_for_the_rebuild_and_is_not_disputed(world: World) -> None:
    """D2, D3: reconcile rebuilds the ledger and then finishes the claim, without an operator."""
    tenant, run = world.new_leased_run()
    world.lose_redis(tenant)
    with pytest.raises(LedgerLost):
        execute._finish(run, DONE, replace(world.work_effects(), pauses_seconds=()))
    assert world.run(run).finalize_stage == FinalizeStage.CLAIMED

    reports = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=6))
    assert reports.lost_ledgers.ended == 1
    ended = world.run(run)
    assert (ended.status, ended.money_state) == (Status.COMPLETED, MoneyState.SETTLED)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST


def test_a_submit_without_a_ledger_is_a_503_not_an_insufficient_budget(world: World) -> None:
    """RUN-9, D2: until the rebuild. For a tenant that never had a credit it is a 402."""
    tenant, poor = world.tenant(), world.tenant(credit_usd_micros=0)
    world.lose_redis(tenant)
    with pytest.raises(LedgerLost):
        world.submit(tenant)
    assert world.using(is_lost, world.ledger, tenant.tenant_id)
    assert not world.using(is_lost, world.ledger, poor.tenant_id)


def test_a_rebuild_under_traffic_neither_loses_nor_creates_money(world: World) -> None:
    """D2: submits, workers and rebuilds at once, in twelve rounds."""
    tenant = world.tenant()
    stop = threading.Event()
    failures: list[BaseException] = []

    def traffic() -> None:
        database = world.new_database()
        try:
            while not stop.is_set():
                effects = replace(world.submit_effects(), database=database)
                run = submit(a_request(tenant, reserved_usd_micros=60_000), effects).run
                work = replace(world.work_effects(), database=database)
                execute.execute(message_of(run), "receipt", work)
        except BaseException as error:  # noqa: BLE001 - raised below, on the test's thread
            failures.append(error)

    threads = [threading.Thread(target=traffic) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        _rebuild(world, tenant)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not failures, failures
    assert world.position(tenant).balanced


def test_a_late_rebuild_script_changes_nothing(world: World) -> None:
    """D2: its caller died and released its locks; its books are stale, which the changed balance shows."""
    tenant = world.tenant()
    ledger = world.ledger
    before = ledger.balance_text(tenant.tenant_id) or ""
    stale = Books(A_CREDIT, [], [], [])
    world.submit(tenant)
    assert ledger.rewrite(tenant.tenant_id, stale, before) is None
    assert world.position(tenant).balanced


def test_a_balance_that_is_not_a_number_is_rebuilt(world: World) -> None:
    """D2."""
    tenant = world.tenant()
    world.submit(tenant)
    world.ledger.client.set(world.ledger.keys.balance(tenant.tenant_id), "1.5")
    assert _rebuild(world, tenant) == A_CREDIT - A_RESERVATION


def test_a_rebuild_of_an_unknown_tenant_is_refused(world: World) -> None:
    """D2."""
    with world.new_database().connection() as connection, pytest.raises(LookupError):
        rebuild(connection, world.ledger, "t_nobody", RebuildReason.OPERATOR)
