"""An operator decides about a disputed run (D3): then ledger and row agree, and the run ends once."""

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
from dpp.runs.operations.disputes import DecisionRefused, DisputeEffects, NotDisputed, decide, list_disputes
from tests.support.faults import Flaky, FlakyDatabase
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, Tenant, World


def _effects(world: World) -> DisputeEffects:
    return DisputeEffects(world.database, world.ledger, world.storage)


def _disputed_completion(world: World, tenant: Tenant) -> Run:
    """A worker stored its result in S3, and its reservation was refunded by somebody else."""
    run = world.leased(tenant)
    world.ledger.refund_full(run.tenant_id, run.id)
    execute._finish(run, DONE, world.work_effects())
    found = world.run(run)
    assert found.is_disputed
    return found


def _lose_receipt(world: World, run: Run) -> None:
    """The receipt expired, or Redis lost it: now there is neither receipt nor reservation."""
    world.ledger.client.delete(world.ledger.keys.receipt(run.tenant_id, run.id))


def _disputed_by_receipt(world: World, tenant: Tenant) -> Run:
    """The run was refunded by somebody else before the reaper charged the minimum fee."""
    run = world.leased(tenant)
    world.ledger.refund_full(run.tenant_id, run.id)
    reap.reap(world.finalize_effects(), world.new_database(), world.later(seconds=121))
    found = world.run(run)
    assert found.is_disputed
    return found


def _assert_sound(world: World, tenant: Tenant, spent: int) -> None:
    """The ledger balances, and no job has anything left to do."""
    assert world.position(tenant).balanced
    assert world.position(tenant).balance_usd_micros == A_CREDIT - spent
    report = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=10))
    assert (report.audits.drift_usd_micros, report.audits.disputed) == (0, 0)
    assert world.position(tenant).balance_usd_micros == A_CREDIT - spent


def test_the_list_has_all_evidence(world: World) -> None:
    """D3: an operator sees the intent, the ledger's receipt, and the cost of the stored result."""
    first = _disputed_completion(world, world.tenant())
    second = _disputed_by_receipt(world, world.tenant())
    found = {one.run.id: one for one in list_disputes(_effects(world), 100)}
    assert set(found) == {first.id, second.id}
    assert (found[first.id].receipt, found[first.id].is_reserved) == (("REFUNDED", 0), False)
    assert found[first.id].envelope_cost_usd_micros == A_COST
    assert found[second.id].receipt == ("REFUNDED", 0)
    assert found[second.id].envelope_cost_usd_micros is None
    assert len(list_disputes(_effects(world), 1)) == 1


def test_a_run_without_reservation_or_receipt_is_charged_as_decided(world: World) -> None:
    """D3: the reservation is first restored from Postgres, and the client gets the stored result."""
    tenant = world.tenant()
    run = _disputed_completion(world, tenant)
    _lose_receipt(world, run)
    assert list_disputes(_effects(world), 1)[0].receipt is None
    ended = decide(_effects(world), run.run_id, A_COST - 10_000)
    assert (ended.status, ended.money_state, ended.finalize_stage) == (
        Status.COMPLETED,
        MoneyState.SETTLED,
        FinalizeStage.COMMITTED,
    )
    assert ended.last_error_detail is None
    _assert_sound(world, tenant, A_COST - 10_000)


def test_a_contradicting_receipt_is_reopened_first(world: World) -> None:
    """D3: a run that somebody else refunded is charged after all, once."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    ended = decide(_effects(world), run.run_id, 5_000)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, Reason.WORKER_TIMEOUT)
    assert world.ledger.receipts(run.tenant_id, [run.id]) == [("SETTLED", "5000")]
    _assert_sound(world, tenant, 5_000)
    with pytest.raises(NotDisputed):
        decide(_effects(world), run.run_id, 5_000)


def test_an_equal_receipt_is_kept(world: World) -> None:
    """D3: the ledger had settled it like that; only the row had to follow."""
    tenant, run = world.new_leased_run()
    world.ledger.settle(run.tenant_id, run.id, 7_000)
    reap.reap(world.finalize_effects(), world.new_database(), world.later(seconds=121))
    before = world.ledger.balance(tenant.tenant_id)
    assert decide(_effects(world), run.run_id, 7_000).actual_cost_usd_micros == 7_000
    assert world.ledger.balance(tenant.tenant_id) == before
    _assert_sound(world, tenant, 7_000)


def test_a_run_that_never_started_can_only_be_refunded(world: World) -> None:
    """RUN-21, D3: the schema would reject a charge; the error comes before any move."""
    tenant, run = world.new_run()
    world.ledger.settle(run.tenant_id, run.id, 5_000)
    sweep.sweep(world.finalize_effects(), world.new_database(), world.later(minutes=61))
    assert world.run(run).is_disputed
    with pytest.raises(DecisionRefused, match="only be refunded"):
        decide(_effects(world), run.run_id, 5_000)
    ended = decide(_effects(world), run.run_id, 0)
    assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
    _assert_sound(world, tenant, 0)


def test_a_run_without_its_result_is_charged_but_failed(world: World) -> None:
    """D3: it is charged as decided, but FAILED, because there is no result to read."""
    tenant = world.tenant()
    run = _disputed_completion(world, tenant)
    world.s3.delete_object(Bucket=world.bucket, Key=run.result_key)
    ended = decide(_effects(world), run.run_id, 5_000)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, Reason.RESULT_MISSING)
    assert ended.result is None
    _assert_sound(world, tenant, 5_000)


def test_an_impossible_decision_is_refused_and_moves_nothing(world: World) -> None:
    """D3: more than was reserved, a run that is not disputed, an unknown run."""
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


def test_after_a_crash_before_the_claim_the_same_command_ends_the_dispute(world: World) -> None:
    """D3: the reservation is held meanwhile; the audit finds no drift and repairs nothing."""
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
    _assert_sound(world, tenant, 5_000)


def test_a_crash_after_the_claim_is_finished_by_reconcile(world: World) -> None:
    """D3: the decision is then the run's recorded intent."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    dying: Any = Flaky(world.ledger, RedisUnavailable, before=["settle"])
    with pytest.raises(RedisUnavailable):
        decide(replace(_effects(world), ledger=dying), run.run_id, 5_000)
    assert world.run(run).money_state == MoneyState.RESERVED
    reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=6))
    assert world.run(run).actual_cost_usd_micros == 5_000
    _assert_sound(world, tenant, 5_000)


def test_of_two_operators_one_decides(world: World) -> None:
    """D3: by version; the second gets an error, and its charge is not recorded."""
    tenant = world.tenant()
    run = _disputed_by_receipt(world, tenant)
    decide(_effects(world), run.run_id, 5_000)
    assert world.using(store.resolve, run, run.intent, finalize_token="late") is None
    with pytest.raises(NotDisputed):
        decide(_effects(world), run.run_id, 9_000)
    _assert_sound(world, tenant, 5_000)


def test_reopening_twice_moves_money_once(world: World) -> None:
    """D2: it is repeatable, like every move of the ledger."""
    run = world.leased(world.tenant())
    world.ledger.settle(run.tenant_id, run.id, 40_000)
    for _ in range(2):
        world.ledger.reopen(run.tenant_id, run.id, A_RESERVATION, 5_000, CloseKind.SETTLED)
        assert world.ledger.balance(run.tenant_id) == A_CREDIT - A_RESERVATION
    assert world.ledger.open_reservations(run.tenant_id) == [run.id]
