"""The matrix can fail: with a job that doesn't run, or a ledger that forgets, the promises are found broken."""

from dataclasses import replace
from typing import Any, cast

import pytest

from dpp.runs.submit import submit
from tests.crash import recovery
from tests.crash.crashes import RunCrashes
from tests.crash.invariants import violations_after_recovery
from tests.crash.recovery import recover
from tests.support.crash_points import FaultKind


def test_without_reconcile_a_claimed_run_stays_half_done(crashes: RunCrashes, monkeypatch: pytest.MonkeyPatch) -> None:
    """D3: the worker died between settle and commit, and nobody finishes what it began."""
    monkeypatch.setattr(recovery, "reconcile", lambda *_: None)
    env = crashes.crash_at("work", "settle", FaultKind.KILLED_AFTER)
    assert not recover(env)
    assert any("has not ended" in broken for broken in violations_after_recovery(env))


def test_without_the_reaper_a_lost_lease_stays(crashes: RunCrashes, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-20, RUN-22: nor may reconcile, which does the reaper's work too."""
    monkeypatch.setattr(recovery, "reap", lambda *_: None)
    monkeypatch.setattr(recovery, "reconcile", lambda *_: None)
    env = crashes.crash_at("work", "start_processing", FaultKind.KILLED_AFTER)
    assert not recover(env)
    assert any("has not ended" in broken for broken in violations_after_recovery(env))


def test_without_a_look_at_orphans_a_reservation_stays(crashes: RunCrashes, monkeypatch: pytest.MonkeyPatch) -> None:
    """D2: the submit died between reserve and insert, and the client's money stays set aside."""
    monkeypatch.setattr("dpp.runs.jobs.reconcile.refund_orphans", lambda *_: None)
    env = crashes.crash_at("submit", "admit", FaultKind.KILLED_AFTER)
    assert not recover(env)
    assert any("stays reserved" in broken for broken in violations_after_recovery(env))


def test_a_settle_without_its_receipt_is_found(crashes: RunCrashes) -> None:
    """D2: the receipt is dropped with the reply; the audit repairs the balance and still reports the drift."""
    env = crashes.crash_at("work", "settle", FaultKind.KILLED_AFTER)
    [client] = env.clients
    run = client.accepted[0].run
    assert env.world.ledger.client.delete(env.world.ledger.keys.receipt(run.tenant_id, run.id)) == 1
    recover(env)
    assert any("was repaired although" in broken for broken in violations_after_recovery(env))


@pytest.mark.parametrize("wrong", [1, -1])
def test_a_micro_too_much_or_too_little_is_found(crashes: RunCrashes, wrong: int) -> None:
    """D2: drift is found even where reconcile repairs it."""
    env = crashes.crash_at("work", "settle", FaultKind.REFUSED)
    ledger = env.world.ledger
    cast(Any, ledger.client).incrby(ledger.keys.balance(env.tenants[0].tenant_id), wrong)
    recover(env)
    assert violations_after_recovery(env) != []


def test_an_object_that_nobody_points_at_is_found(crashes: RunCrashes) -> None:
    """RUN-19: the writer had lost the claim."""
    env = crashes.crash_at("work", "put_object", FaultKind.REFUSED)
    [client] = env.clients
    recover(env)
    env.world.storage.put_json(f"dpp/{client.tenant.tenant_id}/stray.json", b"{}")
    assert [broken for broken in violations_after_recovery(env) if "no run refers to" in broken]


def test_paying_twice_for_one_key_is_found(crashes: RunCrashes) -> None:
    """RUN-4: the client was accepted once, and twice runs of theirs were worked on."""
    env = crashes.crash_at("submit", "mark_enqueued", FaultKind.KILLED_AFTER)
    recover(env)
    [client] = env.clients
    twin = replace(client.request, idempotency_key="another-key")
    submit(twin, env.world.submit_effects())
    recover(env)
    with env.world.database.connection() as connection:
        connection.execute("DROP INDEX runs_idempotency")
        try:
            connection.execute("UPDATE runs SET idempotency_key = %s", [client.request.idempotency_key])
            assert any("paid 100000 for 2 runs" in broken for broken in violations_after_recovery(env))
        finally:
            connection.execute("DELETE FROM run_inputs")
            connection.execute("SET session_replication_role = replica")  # else only tombstones go
            connection.execute("DELETE FROM runs")
            connection.execute("SET session_replication_role = origin")
            connection.execute(
                "CREATE UNIQUE INDEX runs_idempotency ON runs (tenant_id, idempotency_key) "
                "WHERE idempotency_released_at IS NULL"
            )
