"""An operator decides about a disputed run (D3): the ledger and the row agree again, and the run ends once."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dpp.money.ledger import CloseKind
from dpp.platform.errors import PostgresUnavailable, RedisUnavailable
from dpp.runs import execute, store
from dpp.runs.jobs import reap, sweep
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.machine import FinalizeStage, MoneyState, Reason, Status
from dpp.runs.model import Run
from dpp.runs.operations.disputes import DecisionRefused, DisputeEffects, NotDisputed, decide, look
from tests.support.faults import Flaky, FlakyDatabase
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, Tenant, World


def _effects(world: World) -> DisputeEffects:
    return DisputeEffects(world.database, world.ledger, world.storage)


def _disputed_completion(world: World, tenant: Tenant) -> Run:
    """A worker with its result in S3 found its reservation refunded by other hands."""
    run = world.leased(tenant)
    world.ledger.refund_full(run.tenant_id, run.id)
    execute._finish(run, DONE, world.work_effects())
    found = world.run(run)
    assert found.is_disputed
    return found


def _lose_receipt(world: World, run: Run) -> None:
    """Its seven days are over, or Redis lost it: there is neither receipt nor reservation any more."""
    world.ledger.client.delete(world.ledger.keys.receipt(run.tenant_id, run.id))


def _disputed_by_receipt(world: World, tenant: Tenant) -> Run:
    """Refunded by other hands; the reaper then meant to charge the minimum fee."""
    run = world.leased(tenant)
    world.ledger.refund_full(run.tenant_id, run.id)
    reap.reap(world.finalize_effects(), world.new_database(), world.later(seconds=121))
    found = world.run(run)
    assert found.is_disputed
    return found


def _well(world: World, tenant: Tenant, spent: int) -> None:
    """The books hold, and no job finds anything left to do."""
    assert world.position(tenant).balanced
    assert world.position(tenant).balance_usd_micros == A_CREDIT - spent
    report = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=10))
    assert (report.audits.drift_usd_micros, report.audits.disputed) == (0, 0)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - spent


def test_the_evidence_is_shown_whole(world: World) -> None:
    """D3: an operator sees what was meant, what the ledger says, and what the stored result cost."""
    first = _disputed_completion(world, world.tenant())
    second = _disputed_by_receipt(world, world.tenant())
    found = {one.run.id: one for one in look(_effects(world), 100)}
    assert set(found) == {first.id, second.id}
    assert (found[first.id].receipt, found[first.id].is_reserved) == (("REFUNDED", 0), False)
    assert found[first.id].envelope_cost_usd_micros == A_COST
    assert found[second.id].receipt == ("REFUNDED", 0)
    assert found[second.id].envelope_cost_usd_micros is None
    assert len(look(_effects(world), 1)) == 1


def test_a_run_without_reservation_or_receipt_is_charged_as_decided(world: World) -> None:
    """D3: the reservation comes back from Postgres first, and the result that stands is the client's."""
    tenant = world.tenant()
    run = _disputed_completion(world, tenant)
    _lose_receipt(world, run)
    assert look(_effects(world), 1)[0].receipt is None
    ended = decide(_effects(world), run.run_id, A_COST - 10_000)
    assert (ended.status, ended.money_state, ended.finalize_stage) == (
        Status.COMPLETED,
        MoneyState.SETTLED,
        FinalizeStage.COMMITTED,
    )
    assert ended.last_error_detail is None
    _well(world, tenant, A_COST - 10_000)


def test_a_receipt_that_says_otherwise_is_taken_back_first(world: World) -> None:
    """D3: what was refunded by other hands is charged after all, once."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    ended = decide(_effects(world), run.run_id, 5_000)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, Reason.WORKER_TIMEOUT)
    assert world.ledger.receipts(run.tenant_id, [run.id]) == [("SETTLED", "5000")]
    _well(world, tenant, 5_000)
    with pytest.raises(NotDisputed):
        decide(_effects(world), run.run_id, 5_000)


def test_a_receipt_that_says_the_same_is_kept(world: World) -> None:
    """D3: the ledger had settled it so; only the row had to follow."""
    tenant = world.tenant()
    run = world.leased(tenant)
    world.ledger.settle(run.tenant_id, run.id, 7_000)
    reap.reap(world.finalize_effects(), world.new_database(), world.later(seconds=121))
    before = world.ledger.balance(tenant.tenant_id)
    assert decide(_effects(world), run.run_id, 7_000).actual_cost_usd_micros == 7_000
    assert world.ledger.balance(tenant.tenant_id) == before
    _well(world, tenant, 7_000)


def test_a_run_that_never_ran_can_only_be_refunded(world: World) -> None:
    """RUN-21, D3: the schema would refuse a charge; the operator is told before anything moves."""
    tenant = world.tenant()
    run = world.submit(tenant).run
    world.ledger.settle(run.tenant_id, run.id, 5_000)
    sweep.sweep(world.finalize_effects(), world.new_database(), world.later(minutes=61))
    assert world.run(run).is_disputed
    with pytest.raises(DecisionRefused, match="only be refunded"):
        decide(_effects(world), run.run_id, 5_000)
    ended = decide(_effects(world), run.run_id, 0)
    assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
    _well(world, tenant, 0)


def test_a_result_that_is_gone_is_not_sold(world: World) -> None:
    """D3: charged as decided, but FAILED, since there is nothing to read."""
    tenant = world.tenant()
    run = _disputed_completion(world, tenant)
    world.s3.delete_object(Bucket=world.bucket, Key=run.result_key)
    ended = decide(_effects(world), run.run_id, 5_000)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, Reason.RESULT_MISSING)
    assert ended.result is None
    _well(world, tenant, 5_000)


def test_what_can_not_be_decided_is_refused_and_moves_nothing(world: World) -> None:
    """D3: more than was reserved, a run that isn't disputed, one that isn't there."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    living = world.leased(tenant)
    before = world.ledger.balance(tenant.tenant_id)
    with pytest.raises(DecisionRefused, match="250000"):
        decide(_effects(world), run.run_id, A_RESERVATION + 1)
    for run_id in (living.run_id, uuid4()):
        with pytest.raises(NotDisputed):
            decide(_effects(world), run_id, 0)
    assert world.ledger.balance(tenant.tenant_id) == before
    assert world.run(run).is_disputed


def test_a_crash_before_the_row_moved_leaves_a_dispute_that_the_same_command_ends(world: World) -> None:
    """D3: the reservation is held meanwhile; the drift check sees nothing wrong and repairs nothing."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    dying = FlakyDatabase(world.database_url, refuse=[2])
    with pytest.raises(PostgresUnavailable):
        decide(replace(_effects(world), database=dying), run.run_id, 5_000)
    dying.close()
    assert world.run(run).is_disputed
    assert world.ledger.open_reservations(tenant.tenant_id) == [run.id]
    assert reconcile(world.reconcile_effects(), world.new_database()).audits.drift_usd_micros == 0
    decide(_effects(world), run.run_id, 5_000)
    _well(world, tenant, 5_000)


def test_a_crash_after_the_row_moved_is_finished_by_reconcile(world: World) -> None:
    """D3: by then the decision is the run's recorded intent."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    dying: Any = Flaky(world.ledger, RedisUnavailable, before=["settle"])
    with pytest.raises(RedisUnavailable):
        decide(replace(_effects(world), ledger=dying), run.run_id, 5_000)
    assert world.run(run).money_state == MoneyState.RESERVED
    reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=6))
    assert world.run(run).actual_cost_usd_micros == 5_000
    _well(world, tenant, 5_000)


def test_of_two_operators_one_decides(world: World) -> None:
    """D3: by version; the second is told, and its charge is nowhere."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    decide(_effects(world), run.run_id, 5_000)
    with world.database.connection() as connection:
        assert store.resolve(connection, run, run.intent, finalize_token="late") is None
    with pytest.raises(NotDisputed):
        decide(_effects(world), run.run_id, 9_000)
    _well(world, tenant, 5_000)


def test_reopening_twice_moves_money_once(world: World) -> None:
    """D2: like every move of the ledger, it may be asked for again."""
    run = world.leased(world.tenant())
    world.ledger.settle(run.tenant_id, run.id, 40_000)
    for _ in range(2):
        world.ledger.reopen(run.tenant_id, run.id, A_RESERVATION, 5_000, CloseKind.SETTLED)
        assert world.ledger.balance(run.tenant_id) == A_CREDIT - A_RESERVATION
    assert world.ledger.open_reservations(run.tenant_id) == [run.id]
