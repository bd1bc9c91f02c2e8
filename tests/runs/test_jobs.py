"""Reaper, sweeper and reconcile (RUN-20 … RUN-22, D2, D3, D5) on real rows, ledger, queue and bucket."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from dpp.money.ledger import Ledger
from dpp.packs.contract import PackFailure, PackReason, PackSuccess
from dpp.platform.errors import PostgresUnavailable, RedisUnavailable, StorageUnavailable
from dpp.runs import envelope, execute, finalize, store
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs import reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.model import Run, envelope_key
from tests.support.faults import DiesAfter, Flaky, FlakyDatabase
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, ScriptedPacks, Tenant, World, message_of


def _reap(world: World, now: datetime) -> Any:
    return reap.reap(world.finalize_effects(), world.new_database(), now)


def _sweep(world: World, now: datetime) -> Any:
    return sweep(world.finalize_effects(), world.new_database(), now)


def _reconcile(world: World, now: datetime) -> Any:
    return reconcile(world.reconcile_effects(), world.new_database(), now)


def _age_reservations(world: World, tenant: Tenant, seconds: int) -> None:
    """Move the reservations into the past, because the clock of Redis can't be set."""
    ages = world.ledger.keys.reservation_ages(tenant.tenant_id)
    for run_id, _ in world.ledger.client.zscan(ages)[1]:
        world.ledger.client.zincrby(ages, -seconds * 1000, run_id)


def _die_after_claim(world: World, run: Run, *, at: str) -> None:
    """A worker dies in its finalize: before the upload, before or after the settle, or before the commit."""
    effects = world.work_effects()
    broken = {
        "upload": {"storage": Flaky(world.storage, StorageUnavailable, before={"put_json"})},
        "settle": {"ledger": Flaky(world.ledger, RedisUnavailable, before={"settle"})},
        "settle reply": {"ledger": Flaky(world.ledger, RedisUnavailable, after={"settle"})},
        "commit": {"database": FlakyDatabase(world.database_url, refuse={2})},
    }[at]
    effects = replace(effects, pauses_seconds=(), **broken)  # type: ignore[arg-type]
    with pytest.raises((StorageUnavailable, RedisUnavailable, PostgresUnavailable)):
        execute._finish(run, DONE, effects)
    if at == "commit":
        effects.database.close()


class TestReaper:
    """RUN-20: the reaper ends the runs of dead workers."""

    def test_run_20_an_expired_lease_ends_failed_with_the_minimum_fee(self, world: World) -> None:
        """RUN-20, 001 §10.2: FAILED, SETTLED, WORKER_TIMEOUT, min(minimum fee, reserved)."""
        tenant, run = world.new_leased_run(reserved_usd_micros=1_000_000)
        report = _reap(world, world.later(seconds=121))
        ended = world.run(run)
        assert (report.seen, report.ended) == (1, 1)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.SETTLED)
        assert ended.last_error_reason_code == "WORKER_TIMEOUT"
        assert ended.actual_cost_usd_micros == 20_000
        assert world.position(tenant).balance_usd_micros == A_CREDIT - 20_000

    def test_run_20_the_fee_stays_within_a_tiny_reservation(self, world: World) -> None:
        """RUN-23, RUN-24: 0.0049 reserved is 0.0049 charged at most."""
        run = world.leased(world.tenant(), reserved_usd_micros=4_900)
        _reap(world, world.later(seconds=121))
        assert world.run(run).actual_cost_usd_micros == 4_900

    def test_run_20_a_valid_lease_a_claim_and_a_queued_run_are_left_alone(self, world: World) -> None:
        """RUN-20: only PROCESSING and unclaimed runs with an expired lease are ended."""
        tenant = world.tenant()
        queued, leased, claimed = world.submit(tenant).run, world.leased(tenant), world.leased(tenant)
        _die_after_claim(world, claimed, at="upload")
        assert _reap(world, world.later(seconds=119)).seen == 0
        report = _reap(world, world.later(seconds=200))
        assert (report.seen, report.ended) == (1, 1)
        assert world.run(leased).status == Status.FAILED
        assert world.run(queued).status == Status.QUEUED
        assert world.run(claimed).finalize_stage == FinalizeStage.CLAIMED

    def test_run_20_a_reservation_older_than_an_hour_is_still_settled(self, world: World) -> None:
        """D2: `reserve:{run}` has expired; the index still holds the reservation."""
        tenant, run = world.new_leased_run()
        world.ledger.client.delete(world.ledger.keys.reservation(run.tenant_id, run.id))
        _reap(world, world.later(hours=2))
        assert world.run(run).money_state == MoneyState.SETTLED
        assert world.position(tenant).balanced

    def test_a_run_that_fails_does_not_stop_the_others(self, world: World) -> None:
        """Redis refuses the first settle: the second run ends, and reconcile ends the first (RUN-22)."""
        tenant = world.tenant()
        first, second = world.leased(tenant), world.leased(tenant)

        class FailsOnce(Ledger):
            failed = False

            def settle(self, tenant_id: str, run_id: str, charge_usd_micros: int) -> Any:
                if not FailsOnce.failed:
                    FailsOnce.failed = True
                    raise RedisUnavailable("once")
                return super().settle(tenant_id, run_id, charge_usd_micros)

        effects = FinalizeEffects(world.database, FailsOnce(world.ledger.client, world.ledger.keys))
        report = reap.reap(effects, world.new_database(), world.later(seconds=121))
        assert (report.seen, report.ended, report.failed) == (2, 1, 1)
        _reconcile(world, world.later(minutes=10))
        assert {world.run(run).status for run in (first, second)} == {Status.FAILED}
        assert world.position(tenant).balanced


class TestSweeper:
    """RUN-21: the sweeper refunds runs that waited for over an hour."""

    def test_run_21_a_run_queued_for_over_an_hour_is_refunded_in_full(self, world: World) -> None:
        """RUN-21, 001 §11.2: FAILED, REFUNDED, RESERVATION_EXPIRED, without a charge."""
        tenant, run = world.new_run()
        assert _sweep(world, world.later(minutes=59)).seen == 0
        assert _sweep(world, world.later(minutes=61)).ended == 1
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
        assert (ended.last_error_reason_code, ended.actual_cost_usd_micros) == ("RESERVATION_EXPIRED", 0)
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_run_21_a_late_worker_skips_a_swept_run(self, world: World) -> None:
        """RUN-16, RUN-21: the message is received after the run has ended."""
        run = world.submit(world.tenant()).run
        _sweep(world, world.later(minutes=61))
        packs = ScriptedPacks()
        worked = execute.execute(message_of(run), "receipt", world.work_effects(packs))
        assert (worked.outcome, packs.requests) == (execute.WorkOutcome.SKIPPED, [])

    def test_run_21_a_late_sweeper_leaves_a_leased_run_to_its_worker(self, world: World) -> None:
        """RUN-21: the run was read as QUEUED and leased before the write; the CAS on status and version fails."""
        tenant = world.tenant()
        seen = world.submit(tenant).run
        assert world.using(store.start_processing, seen, "a lease") is not None
        from dpp.runs.jobs.sweep import sweep_run

        assert sweep_run(world.finalize_effects(), seen, world.later(hours=2)) is None
        assert world.run(seen).status == Status.PROCESSING


class TestReconcile:
    """RUN-22: reconcile finishes what a crash left unfinished."""

    @pytest.mark.parametrize("at", ["settle", "settle reply", "commit"])
    def test_run_22_a_claim_with_a_stored_envelope_is_completed_at_its_cost(self, world: World, at: str) -> None:
        """RUN-22, D3: the worker died after the upload; the run has the same charge, once."""
        tenant, run = world.new_leased_run()
        _die_after_claim(world, run, at=at)
        assert _reconcile(world, world.later(minutes=4)).stuck_claims.seen == 0
        assert _reconcile(world, world.later(minutes=6)).stuck_claims.ended == 1
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.COMPLETED, MoneyState.SETTLED)
        assert ended.actual_cost_usd_micros == DONE.cost_usd_micros
        assert ended.tokens_consumed == DONE.tokens_consumed
        position = world.position(tenant)
        assert position.balance_usd_micros == A_CREDIT - DONE.cost_usd_micros
        assert position.balanced

    def test_run_22_a_claim_without_its_envelope_fails_with_the_minimum_fee(self, world: World) -> None:
        """RUN-22: the worker died before the upload, so there is no result to charge for."""
        tenant, run = world.new_leased_run()
        _die_after_claim(world, run, at="upload")
        _reconcile(world, world.later(minutes=6))
        ended = world.run(run)
        assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, "RESULT_MISSING")
        assert ended.actual_cost_usd_micros == ended.minimum_fee_usd_micros
        assert ended.result is None
        assert world.position(tenant).balanced

    @pytest.mark.parametrize("calls", [0, 1, 2])
    def test_run_22_a_worker_that_died_between_parts_and_envelope_leaves_no_result(
        self, world: World, calls: int
    ) -> None:
        """RUN-18, RUN-22: the envelope is uploaded last, so with it every part is there."""
        run = world.leased(world.tenant())
        large = PackSuccess(
            data={"words": "x" * 700_000, "pages": "y" * 800_000}, reliability_score=1, cost_usd_micros=A_COST
        )
        storage: Any = DiesAfter(world.storage, "put_json", calls)
        effects = replace(world.work_effects(), pauses_seconds=(), storage=storage)
        if calls < 2:
            with pytest.raises(StorageUnavailable):
                execute._finish(run, large, effects)
            _reconcile(world, world.later(minutes=6))
        else:
            execute._finish(run, large, effects)
        ended = world.run(run)
        found = (ended.status, ended.last_error_reason_code, [part.name for part in ended.result_parts])
        assert found == (
            (Status.FAILED, "RESULT_MISSING", []) if calls < 2 else (Status.COMPLETED, None, ["data.pages"])
        )

    def test_run_22_an_envelope_other_than_the_claimed_one_is_ignored(self, world: World) -> None:
        """RUN-18, RUN-22: the object's SHA-256 must be the recorded one."""
        run = world.leased(world.tenant())
        _die_after_claim(world, run, at="settle")
        forged = json.dumps({"run_id": run.id, "status": "COMPLETED", "cost": {"used_usd": "0.0001"}})
        world.storage.put_json(envelope_key(run), forged.encode())
        _reconcile(world, world.later(minutes=6))
        assert world.run(run).last_error_reason_code == "RESULT_MISSING"

    def test_run_22_an_expired_lease_with_an_envelope_is_completed_at_its_cost(self, world: World) -> None:
        """RUN-22, 001 §23: an upload without a claim still completes the run."""
        tenant, run = world.new_leased_run()
        built = envelope.build(run, DONE, DONE.cost_usd_micros)
        world.storage.put_json(envelope_key(run), built.body)
        report = _reconcile(world, world.later(seconds=121))
        ended = world.run(run)
        assert report.expired_leases.ended == 1
        assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, DONE.cost_usd_micros)
        assert ended.result_sha256 == built.sha256
        assert world.position(tenant).balanced

    @pytest.mark.parametrize(
        "body",
        [b"", b"not json", b"[]", b'{"run_id": "another", "status": "COMPLETED", "cost": {"used_usd": "0.0500"}}'],
    )
    def test_run_22_an_unreadable_envelope_counts_as_missing(self, world: World, body: bytes) -> None:
        """RUN-22: also the envelope of another run."""
        run = world.leased(world.tenant())
        world.storage.put_json(envelope_key(run), body)
        _reconcile(world, world.later(seconds=121))
        assert world.run(run).last_error_reason_code == "WORKER_TIMEOUT"

    def test_run_22_an_envelope_of_a_failure_fails_the_run(self, world: World) -> None:
        run = world.leased(world.tenant())
        failure = PackFailure(reason_code=PackReason.PACK_FAILED)
        world.storage.put_json(envelope_key(run), envelope.build(run, failure, 5_000).body)
        _reconcile(world, world.later(seconds=121))
        assert world.run(run).status == Status.FAILED

    def test_an_unfinished_refund_of_the_sweeper_is_finished(self, world: World) -> None:
        """D3: the sweeper's intent is rolled forward like that of a worker."""
        tenant, run = world.new_run()
        broken = FinalizeEffects(world.database, Flaky(world.ledger, RedisUnavailable, after={"refund_full"}))  # type: ignore[arg-type]
        sweep(broken, world.new_database(), world.later(minutes=61))
        assert world.run(run).finalize_stage == FinalizeStage.CLAIMED
        _reconcile(world, world.later(minutes=70))
        assert world.run(run).money_state == MoneyState.REFUNDED
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_d5_a_run_that_was_never_sent_is_sent_after_a_minute(self, world: World) -> None:
        """D5: after a crash between insert and send, it waits a minute, not an hour. The next scan finds nothing."""
        run = world.submit(world.tenant()).run
        world.messages()
        world.sql("UPDATE runs SET enqueued_at = NULL")
        assert _reconcile(world, world.later(seconds=59)).unsent.seen == 0
        assert _reconcile(world, world.later(seconds=61)).unsent.ended == 1
        assert [message.run_id for message in world.messages()] == [run.run_id]
        assert _reconcile(world, world.later(seconds=61)).unsent.seen == 0

    def test_d2_a_reservation_without_a_run_is_refunded_after_five_minutes(self, world: World) -> None:
        """D2: a crash between reserve and insert leaves one. Reservations with a run are left alone."""
        tenant = world.tenant()
        world.submit(tenant)
        world.ledger.reserve(tenant.tenant_id, str(uuid4()), 1_000_000, 0)
        _age_reservations(world, tenant, 299)
        assert _reconcile(world, world.now()).orphans.seen == 0
        _age_reservations(world, tenant, 2)
        assert _reconcile(world, world.now()).orphans.ended == 1
        assert world.position(tenant).balance_usd_micros == A_CREDIT - A_RESERVATION
        assert world.position(tenant).balanced

    def test_d2_a_reservation_that_redis_lost_is_entered_again_and_the_claim_finished(self, world: World) -> None:
        """D2, D3: a run with neither reservation nor receipt is not disputed: Postgres has its reservation as open."""
        tenant, run = world.new_leased_run()
        for key in world.ledger.move_keys(run.tenant_id, run.id)[1:]:
            world.ledger.client.delete(key)
        assert _reap(world, world.later(seconds=121)).failed == 1
        assert world.run(run).finalize_stage == FinalizeStage.CLAIMED

        report = _reconcile(world, world.later(minutes=8))
        assert (report.stuck_claims.failed, report.audits.ended, report.audits.drift_usd_micros) == (1, 1, 0)
        assert _reconcile(world, world.later(minutes=14)).stuck_claims.ended == 1
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.SETTLED)
        assert world.position(tenant).balance_usd_micros == A_CREDIT - 5_000
        assert world.position(tenant).balanced

    def test_d3_a_receipt_that_contradicts_the_intent_is_disputed(self, world: World) -> None:
        """D3: the run was refunded by hand and claimed as settled; neither is assumed to be right."""
        run = world.leased(world.tenant())
        world.ledger.refund_full(run.tenant_id, run.id)
        _reap(world, world.later(seconds=121))
        assert world.run(run).money_state == MoneyState.DISPUTED

    def test_a_claim_that_was_taken_over_is_not_committed_by_its_first_holder(self, world: World) -> None:
        """RUN-19: the commit names version and token, so a holder that was frozen changes nothing."""
        tenant, run = world.new_leased_run()
        guard = store.Guard(Status.PROCESSING, lease_token=run.lease_token)
        frozen = world.using(store.claim, run, guard, reap.timed_out(run), finalize_token="first")
        assert frozen is not None
        _reconcile(world, world.later(minutes=6))
        ended = world.run(run)
        assert finalize.roll_forward(world.finalize_effects(), frozen) is None
        assert world.run(run) == ended
        assert world.position(tenant).balanced

    def test_two_ticks_at_once_end_each_run_once(self, world: World) -> None:
        """RUN-20 … RUN-22: the second tick read its rows before the first one wrote."""
        tenant = world.tenant()
        runs = [world.leased(tenant) for _ in range(3)]
        late = world.later(seconds=121)
        seen = world.using(lambda on: list(store.page_through(on, "page_expired_leases", late)))
        assert _reap(world, late).ended == 3
        assert [reap.reap_run(world.finalize_effects(), run, late) for run in seen] == [None] * 3
        assert world.position(tenant).charges_usd_micros == sum(run.minimum_fee_usd_micros for run in runs)

    def test_a_claim_is_left_to_the_next_tick_while_s3_is_unavailable(self, world: World) -> None:
        """RUN-22: an envelope that can't be read is not a missing one."""
        run = world.leased(world.tenant())
        _die_after_claim(world, run, at="settle")
        effects = world.reconcile_effects()
        away = replace(effects, storage=Flaky(world.storage, StorageUnavailable, before={"get"}))  # type: ignore[arg-type]
        report = reconcile(away, world.new_database(), world.later(minutes=6))
        assert report.stuck_claims.failed == 1
        assert world.run(run).finalize_stage == FinalizeStage.CLAIMED
        _reconcile(world, world.later(minutes=7))
        assert world.run(run).status == Status.COMPLETED
