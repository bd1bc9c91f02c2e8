"""The continuous audit (D2): work under way is not drift; drift is found, and repaired if Postgres proves it."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest

from dpp.money import drift
from dpp.money.drift import Audit, Verdict, audit, due_audits, measure
from dpp.money.ledger import Ledger
from dpp.money.rebuild import RebuildReason, rebuild
from dpp.platform.errors import PostgresUnavailable
from dpp.runs import execute, store
from dpp.runs.jobs import batch, reap
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.machine import Status
from dpp.runs.store import Guard
from dpp.runs.submit import submit
from tests.support.stored import existing
from tests.support.world import A_COST, A_CREDIT, A_RESERVATION, Tenant, World, a_request, message_of


def _audit(world: World, tenant: Tenant) -> Audit:
    return world.using(audit, world.ledger, tenant.tenant_id)


def _worked(world: World, tenant: Tenant) -> str:
    run = world.submit(tenant).run
    execute.execute(message_of(run), "receipt", world.work_effects())
    return run.id


def _rebuilds(world: World, tenant: Tenant) -> list[tuple[str, int | None, int]]:
    return world.sql(
        "SELECT reason, before_usd_micros, balance_usd_micros FROM ledger_rebuilds"
        " WHERE tenant_id = %s AND reason <> 'CREDIT' ORDER BY rebuild_id",
        [tenant.tenant_id],
    )


# --- work under way --------------------------------------------------------------------------------------------


def test_work_under_way_is_not_drift(world: World) -> None:
    """D2: queued, processing, reserved but not inserted, settled but not committed, and a credit under way."""
    tenant = world.tenant()
    _worked(world, tenant)
    world.submit(tenant)
    settled = world.leased(tenant)
    guard = Guard(Status.PROCESSING, lease_token=settled.lease_token)
    world.using(store.claim, settled, guard, reap.timed_out(settled), finalize_token="t")
    world.sql(
        "INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason) VALUES (%s, %s, 70, 'x')",
        [uuid4(), tenant.tenant_id],
    )
    world.ledger.settle(tenant.tenant_id, settled.id, 5_000)
    world.ledger.reserve(tenant.tenant_id, str(uuid4()), 1_000, 0)

    found = existing(world.using(measure, world.ledger, tenant.tenant_id))
    assert (found.drift_usd_micros, found.in_flight_usd_micros) == (0, 1_000)
    assert found.due_usd_micros == A_CREDIT - A_COST - A_RESERVATION - 5_000 - 1_000
    assert _audit(world, tenant) == Audit(Verdict.BALANCED)


def test_no_measure_under_traffic_is_wrong(world: World) -> None:
    """D2: a measure between submits, workers and credits is None or has no drift."""
    tenant = world.tenant()
    stop, failures, measured = threading.Event(), list[BaseException](), list[int]()

    def traffic() -> None:
        database = world.new_database()
        try:
            while not stop.is_set():
                effects = replace(world.submit_effects(), database=database)
                run = submit(a_request(tenant, reserved_usd_micros=60_000), effects).run
                execute.execute(message_of(run), "receipt", replace(world.work_effects(), database=database))
                world.credit(tenant.tenant_id, 50_000, database)
        except BaseException as error:  # noqa: BLE001 - raised below, on the test's thread
            failures.append(error)

    threads = [threading.Thread(target=traffic) for _ in range(2)]
    for thread in threads:
        thread.start()
    with world.new_database().connection() as connection:
        while len(measured) < 60 and not failures:
            found = measure(connection, world.ledger, tenant.tenant_id)
            if found is not None:
                measured.append(found.drift_usd_micros)
    stop.set()
    for thread in threads:
        thread.join(30)
    assert not failures, failures
    assert measured == [0] * 60
    assert _audit(world, tenant).verdict == Verdict.BALANCED


class _Restless(Ledger):
    """A ledger whose balance changes between any two reads."""

    def open_reservations(self, tenant_id: str) -> list[str]:
        self.client.incrby(self.keys.balance(tenant_id), 1)
        return super().open_reservations(tenant_id)


def test_a_balance_that_keeps_changing_is_left_for_the_next_tick(world: World) -> None:
    """D2: it is neither balanced nor repaired, and is audited again in its turn."""
    tenant = world.tenant()
    ledger = _Restless(world.ledger.client, world.ledger.keys)
    assert world.using(audit, ledger, tenant.tenant_id) == Audit(Verdict.BUSY)
    assert tenant.tenant_id not in world.using(due_audits)
    assert _rebuilds(world, tenant) == []


# --- drift that Postgres proves ----------------------------------------------------------------------------------


def _lose_reserve_and_settle(world: World, tenant: Tenant) -> int:
    """A failover lost everything about a run but its row: the balance is as before the reserve."""
    run_id = _worked(world, tenant)
    world.ledger.client.delete(world.ledger.keys.receipt(tenant.tenant_id, run_id))
    world.ledger.client.incrby(world.ledger.keys.balance(tenant.tenant_id), A_COST)
    return A_COST


def _lose_reserve(world: World, tenant: Tenant) -> int:
    run_id, keys = world.submit(tenant).run.id, world.ledger.keys
    world.ledger.client.delete(keys.reservation(tenant.tenant_id, run_id))
    world.ledger.client.hdel(keys.reservation_amounts(tenant.tenant_id), run_id)
    world.ledger.client.zrem(keys.reservation_ages(tenant.tenant_id), run_id)
    world.ledger.client.incrby(keys.balance(tenant.tenant_id), A_RESERVATION)
    return A_RESERVATION


def _bring_a_reservation_back(world: World, tenant: Tenant) -> int:
    run_id, keys = _worked(world, tenant), world.ledger.keys
    world.ledger.client.delete(keys.receipt(tenant.tenant_id, run_id))
    world.ledger.client.hset(keys.reservation_amounts(tenant.tenant_id), run_id, str(A_RESERVATION))
    world.ledger.client.zadd(keys.reservation_ages(tenant.tenant_id), {run_id: 9_999_999_999_999})
    world.ledger.client.decrby(keys.balance(tenant.tenant_id), A_RESERVATION - A_COST)
    return A_COST - A_RESERVATION


def _lose_an_old_credit(world: World, tenant: Tenant) -> int:
    world.sql(
        "INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason, created_at)"
        " VALUES (%s, %s, 70, 'x', now() - interval '6 minutes')",
        [uuid4(), tenant.tenant_id],
    )
    return -70


def _write_by_hand(world: World, tenant: Tenant) -> int:
    _worked(world, tenant)
    world.ledger.client.incrby(world.ledger.keys.balance(tenant.tenant_id), 1)
    return 1


@pytest.mark.parametrize(
    "spoil", [_lose_reserve_and_settle, _lose_reserve, _bring_a_reservation_back, _lose_an_old_credit, _write_by_hand]
)
def test_drift_that_postgres_proves_is_repaired_by_reconcile(
    world: World, spoil: Callable[[World, Tenant], int]
) -> None:
    """D2: found in one tick, reported to the micro, repaired, and recorded as a rebuild."""
    tenant = world.tenant()
    drifted = spoil(world, tenant)
    before = world.ledger.balance(tenant.tenant_id)

    report = reconcile(world.reconcile_effects(), world.new_database()).audits

    assert (report.seen, report.ended, report.drift_usd_micros) == (1, 1, abs(drifted))
    after = world.position(tenant)
    assert after.balanced
    assert before is not None
    assert after.balance_usd_micros == before - drifted
    assert _rebuilds(world, tenant) == [("DRIFT", before, before - drifted)]
    again = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=1)).audits
    assert (again.seen, again.ended, again.drift_usd_micros) == (1, 0, 0)


def test_a_run_whose_reservation_was_lost_is_paid_after_the_repair(world: World) -> None:
    """D2, D3: without the repair its settle would find no reservation, and it would end DISPUTED."""
    tenant = world.tenant()
    _lose_reserve(world, tenant)
    reconcile(world.reconcile_effects(), world.new_database())
    ((run_id,),) = world.sql("SELECT run_id FROM runs")
    run = existing(world.using(store.find, tenant.tenant_id, run_id))
    assert execute.execute(message_of(run), "receipt", world.work_effects()).outcome == execute.WorkOutcome.ENDED
    assert world.position(tenant).balance_usd_micros == A_CREDIT - A_COST


def test_a_crash_before_the_record_of_a_repair_repairs_nothing_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the next tick finds no drift."""
    tenant = world.tenant()
    _write_by_hand(world, tenant)
    real = drift._audit

    def audit_and_die(*args: object) -> Audit:
        real(*args)  # type: ignore[arg-type]
        raise PostgresUnavailable("killed")

    with monkeypatch.context() as patched:
        patched.setattr(drift, "_audit", audit_and_die)
        with pytest.raises(PostgresUnavailable):
            reconcile(world.reconcile_effects(), world.new_database())
    assert reconcile(world.reconcile_effects(), world.new_database()).audits.drift_usd_micros == 0
    assert len(_rebuilds(world, tenant)) == 1
    assert world.position(tenant).balanced


# --- drift that Postgres does not prove ------------------------------------------------------------------------------


def test_a_receipt_that_contradicts_its_row_is_left_to_an_operator(world: World) -> None:
    """D3: one of the two was changed from outside; nothing is guessed, and it is reported until somebody decides."""
    tenant = world.tenant()
    run_id = _worked(world, tenant)
    keys, client = world.ledger.keys, world.ledger.client
    client.hset(keys.receipt(tenant.tenant_id, run_id), "charge_usd_micros", str(A_COST - 7))
    client.incrby(keys.balance(tenant.tenant_id), 7)

    for minutes in (0, 1):
        report = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=minutes)).audits
        assert (report.ended, report.drift_usd_micros, report.disputed) == (0, 7, 1)
        assert world.position(tenant).drift_usd_micros == 7
    found = _audit(world, tenant)
    assert found.verdict == Verdict.DISPUTED
    assert run_id in (found.detail or "")

    with world.new_database().connection() as connection:
        rebuild(connection, world.ledger, tenant.tenant_id, RebuildReason.OPERATOR)
    report = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=3)).audits
    assert (report.drift_usd_micros, report.disputed) == (0, 0)
    assert _rebuilds(world, tenant) == [("OPERATOR", A_CREDIT - A_COST + 7, A_CREDIT - A_COST)]


def test_contradictions_are_found_on_every_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """D2: there are more runs than a page holds, and the contradicted one is among the last."""
    tenant = world.tenant()
    run_ids = [_worked(world, tenant) for _ in range(5)]
    monkeypatch.setattr(drift, "_PAGE_SIZE", 2)
    world.ledger.client.hset(world.ledger.keys.receipt(tenant.tenant_id, run_ids[4]), "kind", "REFUNDED")
    assert world.using(drift.contradictions, world.ledger, tenant.tenant_id) == [run_ids[4]]


# --- the order of audits ---------------------------------------------------------------------------------------------


def test_the_tenant_with_the_oldest_audit_is_next(world: World) -> None:
    """D2: every tenant is audited, even if there are more than a tick has time for."""
    first, second, third = world.tenant(), world.tenant(), world.tenant()
    now = world.now()
    with world.database.connection() as connection:
        for tenant, minutes in ((first, -2), (second, -3)):
            audit(connection, world.ledger, tenant.tenant_id, now + timedelta(minutes=minutes))
        order = [third.tenant_id, second.tenant_id, first.tenant_id]
        assert [tenant for tenant in due_audits(connection, now) if tenant in order] == order
        audit(connection, world.ledger, third.tenant_id, now - timedelta(seconds=30))
        assert third.tenant_id not in due_audits(connection, now)


def test_a_redis_that_hangs_takes_at_most_a_scans_share_of_the_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: otherwise, with seconds per call and many tenants, the scans without Redis would never run."""
    tenants = [world.tenant() for _ in range(4)]
    world.submit(tenants[0])
    world.sql("UPDATE runs SET enqueued_at = NULL")
    clock = itertools.count(step=5)
    monkeypatch.setattr(batch, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    report = reconcile(world.reconcile_effects(), world.new_database(), world.later(minutes=2))

    assert report.unsent.ended == 1
    for scan in (report.lost_ledgers, report.orphans, report.audits):
        assert scan.stopped_early
    assert report.audits.seen == 1
