"""Runs that wait while execution is disabled (TIX-1): parked, never started, never lost, never a dead letter."""

import threading
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from dpp.packs.contract import PackRequest, PackResult, PackType
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Connection
from dpp.platform.errors import DependencyUnavailable, QueueUnavailable
from dpp.runs import store
from dpp.runs.execute import WorkOutcome, execute
from dpp.runs.jobs.batch import BATCH_LIMIT
from dpp.runs.jobs.reap import reap
from dpp.runs.jobs.reconcile import ReconcileReport, reconcile, send_again
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import Run
from dpp.runs.submit import SubmitEffects, submit
from tests.runs.switched import disable, enable
from tests.support.faults import FlakyDatabase
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, DONE, ScriptedPacks, World, a_request, message_of

PACKS = [None, PackType.DECISION]


def _work(world: World, run: Run, packs: Any = None) -> WorkOutcome:
    return execute(message_of(run), "receipt", world.work_effects(packs)).outcome


def _deliver(world: World) -> list[WorkOutcome]:
    """Execute every message in the queue."""
    return [execute(message, "receipt", world.work_effects()).outcome for message in world.messages()]


def _parked(world: World, **changes: Any) -> Run:
    """A run whose message was received while its execution was disabled."""
    run = world.submit(world.tenant(), **changes).run
    disable(world.database)
    assert _deliver(world) == [WorkOutcome.PARKED]
    return world.run(run)


def _reconcile(world: World, **later: float) -> ReconcileReport:
    return reconcile(world.reconcile_effects(), world.new_database(), world.later(**later))


def _enqueued_at(world: World, run: Run) -> datetime | None:
    ((enqueued_at,),) = world.sql("SELECT enqueued_at FROM runs WHERE run_id = %s", [run.run_id])
    return enqueued_at  # type: ignore[no-any-return]


class TestParking:
    """The worker parks a run instead of starting it."""

    @pytest.mark.parametrize("scope", PACKS)
    def test_a_waiting_run_is_parked_and_its_message_acknowledged(self, world: World, scope: PackType | None) -> None:
        """It stays QUEUED with its money reserved, as if never sent; no pack is started."""
        tenant, packs = world.tenant(), ScriptedPacks()
        run = world.submit(tenant).run
        disable(world.database, scope)
        assert _work(world, run, packs) == WorkOutcome.PARKED
        parked = world.run(run)
        assert (parked.status, parked.money_state) == (Status.QUEUED, MoneyState.RESERVED)
        assert (parked.version, parked.lease_token, parked.finalize_stage) == (run.version + 1, None, None)
        assert _enqueued_at(world, run) is None
        assert packs.requests == []
        assert world.position(tenant).open_reservations_usd_micros == A_RESERVATION
        assert world.position(tenant).balanced

    def test_disabling_a_pack_disables_no_other(self, world: World) -> None:
        for other in set(PackType) - {PackType.DECISION}:
            disable(world.database, other)
        assert _work(world, world.submit(world.tenant()).run) == WorkOutcome.ENDED

    def test_a_run_that_is_processing_goes_on_to_its_end(self, world: World) -> None:
        """Execution is disabled while its pack runs: the run completes and is charged."""
        tenant, run = world.new_run()

        class Disabling(ScriptedPacks):
            def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
                disable(world.database)
                return DONE

        assert _work(world, run, Disabling()) == WorkOutcome.ENDED
        assert world.run(run).status == Status.COMPLETED
        assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST

    def test_messages_of_runs_that_have_moved_on_are_skipped(self, world: World) -> None:
        """RUN-16: neither a PROCESSING nor an ended run is parked."""
        tenant = world.tenant()
        ended, leased = world.submit(tenant).run, world.leased(tenant)
        assert _work(world, ended) == WorkOutcome.ENDED
        disable(world.database)
        for run in (ended, leased):
            before = world.run(run)
            assert _work(world, run) == WorkOutcome.SKIPPED
            assert world.run(run) == before

    def test_a_duplicate_message_parks_again_without_harm(self, world: World) -> None:
        """A duplicate delivery finds the run parked; the run is sent again once, not twice."""
        run = _parked(world)
        assert _work(world, run) == WorkOutcome.PARKED
        enable(world.database)
        _reconcile(world, seconds=61)
        assert _deliver(world) == [WorkOutcome.ENDED]

    def test_enabled_between_the_refused_start_and_the_parking(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is parked even so: otherwise its message would be gone, and no other would be sent for an hour."""
        run = world.submit(world.tenant()).run
        disable(world.database)
        park = store.park

        def enable_then_park(connection: Connection, seen: Run) -> Run | None:
            enable(world.database)
            return park(connection, seen)

        monkeypatch.setattr(store, "park", enable_then_park)
        assert _deliver(world) == [WorkOutcome.PARKED]
        assert _reconcile(world, seconds=61).unsent.ended == 1
        assert _deliver(world) == [WorkOutcome.ENDED]
        assert world.run(run).status == Status.COMPLETED

    def test_leased_by_another_between_the_refused_start_and_the_parking(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Execution was enabled and a second message was faster: the lease is kept, and this message is skipped."""
        run = world.submit(world.tenant()).run
        disable(world.database)
        park = store.park

        def lease_then_park(connection: Connection, seen: Run) -> Run | None:
            enable(world.database)
            assert store.start_processing(connection, seen, "another's") is not None
            return park(connection, seen)

        monkeypatch.setattr(store, "park", lease_then_park)
        assert _work(world, run) == WorkOutcome.SKIPPED
        assert (world.run(run).status, world.run(run).lease_token) == (Status.PROCESSING, "another's")

    def test_swept_by_another_between_the_refused_start_and_the_parking(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-21: its hour was over; the refund is kept."""
        tenant, run = world.new_run()
        disable(world.database)
        park = store.park

        def sweep_then_park(connection: Connection, seen: Run) -> Run | None:
            sweep(world.finalize_effects(), world.new_database(), world.later(minutes=61))
            return park(connection, seen)

        monkeypatch.setattr(store, "park", sweep_then_park)
        assert _work(world, run) == WorkOutcome.SKIPPED
        assert world.run(run).money_state == MoneyState.REFUNDED
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_a_late_start_does_not_lease_a_run_that_was_parked_since(self, world: World) -> None:
        """Its worker is gone, so the lease would expire and the client would pay for a run that was never executed."""
        run = world.submit(world.tenant()).run
        disable(world.database)
        assert _work(world, run) == WorkOutcome.PARKED
        enable(world.database)
        assert world.using(store.start_processing, run, "a dead worker's") is None
        assert world.run(run).status == Status.QUEUED


class TestFaults:
    """The worker dies or loses a connection."""

    @pytest.mark.parametrize("at", [{"refuse": {1}}, {"lose_reply": {1}}], ids=["refused", "reply lost"])
    def test_a_message_whose_parking_failed_is_delivered_again_and_parks(
        self, world: World, at: dict[str, set[int]]
    ) -> None:
        """Before, between or after the two statements: the message is not acknowledged, and the run stays QUEUED."""
        run = world.submit(world.tenant()).run
        disable(world.database)
        database = FlakyDatabase(world.database_url, **at)
        with pytest.raises(DependencyUnavailable):
            execute(message_of(run), "receipt", replace(world.work_effects(), database=database, pauses_seconds=()))
        database.close()
        assert world.run(run).status == Status.QUEUED
        assert _work(world, run) == WorkOutcome.PARKED
        assert _enqueued_at(world, run) is None

    def test_a_worker_with_retries_parks_after_a_lost_reply(self, world: World) -> None:
        """Parking is repeatable: the second try parks the run again."""
        run = world.submit(world.tenant()).run
        disable(world.database)
        database = FlakyDatabase(world.database_url, lose_reply={1})
        effects = replace(world.work_effects(), database=database, pauses_seconds=(0.0,))
        assert execute(message_of(run), "receipt", effects).outcome == WorkOutcome.PARKED
        database.close()
        assert _enqueued_at(world, run) is None

    def test_after_a_kill_between_the_two_statements_the_message_is_delivered_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first statement wrote nothing, so the second delivery starts anew; if enabled, it executes the run."""
        run = world.submit(world.tenant()).run
        disable(world.database)

        class KilledError(BaseException):
            pass

        def die(*_: Any) -> None:
            raise KilledError

        with monkeypatch.context() as patched:
            patched.setattr(store, "park", die)
            with pytest.raises(KilledError):
                _work(world, run)
        assert world.run(run) == run
        enable(world.database)
        assert _work(world, run) == WorkOutcome.ENDED

    def test_a_worker_faster_than_the_mark_of_the_submit_stays_parked(self, world: World) -> None:
        """D5: the run was parked before `enqueued_at` was written, which would otherwise mark it as sent."""

        class Delivering(Queue):
            def send(self, body: str) -> None:
                super().send(body)
                disable(world.database)
                assert _deliver(world) == [WorkOutcome.PARKED]

        queue = Delivering(world.queue_url, lambda: world.sqs)
        effects = SubmitEffects(world.database, world.ledger, queue)
        run = submit(a_request(world.tenant()), effects).run
        assert _enqueued_at(world, run) is None
        enable(world.database)
        _reconcile(world, seconds=61)
        assert _deliver(world) == [WorkOutcome.ENDED]
        assert world.run(run).status == Status.COMPLETED

    def test_a_worker_faster_than_the_mark_of_reconcile_stays_parked(self, world: World) -> None:
        """The same race a minute later: execution is enabled, the run sent, and execution disabled before the mark."""
        run = _parked(world)
        enable(world.database)

        class Delivering(Queue):
            def send(self, body: str) -> None:
                super().send(body)
                disable(world.database)
                assert _deliver(world) == [WorkOutcome.PARKED]

        queue = Delivering(world.queue_url, lambda: world.sqs)
        send_again(replace(world.reconcile_effects(), queue=queue), run)
        assert _enqueued_at(world, run) is None

    def test_a_parked_run_whose_message_the_submit_gave_up_is_accepted(self, world: World) -> None:
        """RUN-8: SQS accepted the message and lost the reply; the worker parked the run, so the claim loses."""
        tenant = world.tenant()

        class LosingReplies(Queue):
            def send(self, body: str) -> None:
                super().send(body)
                disable(world.database)
                _deliver(world)
                raise QueueUnavailable("the reply was lost")

        queue = LosingReplies(world.queue_url, lambda: world.sqs)
        run = submit(a_request(tenant), SubmitEffects(world.database, world.ledger, queue)).run
        assert world.run(run).status == Status.QUEUED
        enable(world.database)
        _reconcile(world, seconds=61)
        assert _deliver(world) == [WorkOutcome.ENDED]
        assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST


class TestResuming:
    """A parked run is sent again, or ends."""

    @pytest.mark.parametrize("scope", PACKS)
    def test_once_enabled_the_next_tick_sends_it(self, world: World, scope: PackType | None) -> None:
        """D5: within a minute, and not before, so that it costs no message while it can't start."""
        tenant, run = world.new_run()
        disable(world.database, scope)
        assert _deliver(world) == [WorkOutcome.PARKED]
        for minutes in (2, 20, 59):
            assert _reconcile(world, minutes=minutes).unsent.seen == 0
        assert world.messages() == []
        enable(world.database, scope)
        assert _reconcile(world, minutes=59).unsent.ended == 1
        assert _deliver(world) == [WorkOutcome.ENDED]
        assert world.run(run).status == Status.COMPLETED
        assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST

    def test_a_run_is_parked_again_if_disabled_before_its_message_arrives(self, world: World) -> None:
        run = _parked(world)
        for _ in range(5):
            enable(world.database)
            assert _reconcile(world, minutes=2).unsent.ended == 1
            disable(world.database)
            assert _deliver(world) == [WorkOutcome.PARKED]
        assert world.run(run).version == run.version + 5
        assert world.run(run).status == Status.QUEUED

    def test_a_run_starts_only_if_all_packs_and_its_pack_are_enabled(self, world: World) -> None:
        _parked(world)
        disable(world.database, PackType.DECISION)
        enable(world.database)
        assert _reconcile(world, minutes=2).unsent.seen == 0
        enable(world.database, PackType.DECISION)
        assert _reconcile(world, minutes=2).unsent.ended == 1

    def test_run_21_a_parked_run_is_refunded_in_full_after_its_hour(self, world: World) -> None:
        """RUN-21: FAILED, REFUNDED, RESERVATION_EXPIRED; it does not start when execution is enabled later."""
        tenant, run = world.new_run()
        disable(world.database)
        _deliver(world)
        assert sweep(world.finalize_effects(), world.new_database(), world.later(minutes=59)).seen == 0
        assert sweep(world.finalize_effects(), world.new_database(), world.later(minutes=61)).ended == 1
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
        assert ended.last_error_reason_code == "RESERVATION_EXPIRED"
        assert world.position(tenant).balance_usd_micros == A_CREDIT
        enable(world.database)
        assert _reconcile(world, minutes=62).unsent.seen == 0
        assert _work(world, run) == WorkOutcome.SKIPPED

    def test_the_jobs_work_while_execution_is_disabled(self, world: World) -> None:
        """RUN-20, RUN-22: an expired lease is reaped, and the parked run keeps its reservation."""
        tenant = world.tenant()
        leased, waiting = world.leased(tenant), world.submit(tenant).run
        disable(world.database)
        _deliver(world)
        later = world.later(seconds=150)
        assert reap(world.finalize_effects(), world.new_database(), later).ended == 1
        report = reconcile(world.reconcile_effects(), world.new_database(), later)
        assert [done.ended for done in report.scans.values()] == [0] * len(report.scans)
        assert world.run(leased).last_error_reason_code == "WORKER_TIMEOUT"
        assert world.run(waiting).status == Status.QUEUED
        assert world.position(tenant).balanced

    def test_many_parked_runs_delay_no_other(self, world: World) -> None:
        """More runs than a tick's limit are parked; a newer unsent run of another pack is sent at once (D5)."""
        tenant = world.tenant()
        disable(world.database, PackType.URL)
        _insert(world, tenant.tenant_id, PackType.URL, BATCH_LIMIT + 100)
        newer = world.submit(tenant).run
        world.messages()
        world.sql("UPDATE runs SET enqueued_at = NULL WHERE run_id = %s", [newer.run_id])
        report = _reconcile(world, seconds=90)
        assert (report.unsent.seen, report.unsent.ended, report.unsent.stopped_early) == (1, 1, False)
        assert [message.run_id for message in world.messages()] == [newer.run_id]

    def test_many_parked_runs_are_sent_oldest_first_in_batches(self, world: World) -> None:
        """Sent runs no longer match the scan, so every tick makes progress and reaches those behind."""
        tenant = world.tenant()
        _insert(world, tenant.tenant_id, PackType.DECISION, BATCH_LIMIT + 20)
        sent: list[Any] = []

        class Noting(Queue):
            def send(self, body: str) -> None:
                sent.append(body)

        effects = replace(world.reconcile_effects(), queue=Noting("", lambda: world.sqs))
        for ended in (BATCH_LIMIT, 20, 0):
            report = reconcile(effects, world.new_database(), world.later(seconds=90))
            assert report.unsent.ended == ended
        assert len(set(sent)) == BATCH_LIMIT + 20


def _insert(world: World, tenant_id: str, pack: PackType, count: int) -> None:
    """Insert unsent or parked runs, all created at the same time, more than a minute before `later(seconds=90)`."""
    world.sql(
        """
            INSERT INTO runs (run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key,
              payload_hash, reservation_max_cost_usd_micros, minimum_fee_usd_micros, timebox_sec,
              min_reliability_score, retention_until, trace_id)
            SELECT gen_random_uuid(), %s, %s, 'v', 'QUEUED', 'RESERVED', 'key-' || lpad(n::text, 8, '0'),
              repeat('ab', 32), 1000, 5000, 90, 0.8, now() + interval '30 days', 't'
            FROM generate_series(1, %s) n
            """,
        (tenant_id, pack.value, count),
    )
