"""The matrix can fail: with a job that doesn't run, or a ledger that forgets, the promises are found broken."""

from dataclasses import replace
from typing import Any, cast

import pytest

from dpp.runs.submit import submit
from tests.crash import aftermath
from tests.crash.aftermath import come_to_rest
from tests.crash.playhouse import Playhouse
from tests.crash.points import Kind, Points, listed
from tests.crash.promises import broken_at_rest
from tests.crash.stage import Stage


def _crash(playhouse: Playhouse, scenario: str, call: str, kind: Kind) -> Stage:
    """Play a scenario with this crash at the first such call."""
    point = next(each for each in listed() if (each.scenario, each.call) == (scenario, call))
    return playhouse.play(scenario, Points(scenario, at=point.number, kind=kind))


def test_without_reconcile_a_claimed_run_stays_half_done(
    playhouse: Playhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: the worker died between settle and commit, and nobody finishes what it began."""
    monkeypatch.setattr(aftermath, "reconcile", lambda *_: None)
    stage = _crash(playhouse, "work", "settle", Kind.KILLED_AFTER)
    assert not come_to_rest(stage)
    assert any("never ended" in broken for broken in broken_at_rest(stage))


def test_without_the_reaper_a_lost_lease_stays(playhouse: Playhouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-20, RUN-22: nor may reconcile, which does the reaper's work too."""
    monkeypatch.setattr(aftermath, "reap", lambda *_: None)
    monkeypatch.setattr(aftermath, "reconcile", lambda *_: None)
    stage = _crash(playhouse, "work", "start_processing", Kind.KILLED_AFTER)
    assert not come_to_rest(stage)
    assert any("never ended" in broken for broken in broken_at_rest(stage))


def test_without_a_look_at_orphans_a_reservation_stays(
    playhouse: Playhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the submit died between reserve and insert, and the client's money stays set aside."""
    monkeypatch.setattr("dpp.runs.jobs.reconcile.refund_orphans", lambda *_: None)
    stage = _crash(playhouse, "submit", "admit", Kind.KILLED_AFTER)
    assert not come_to_rest(stage)
    assert any("stay reserved" in broken for broken in broken_at_rest(stage))


def test_a_settle_without_its_receipt_is_found(playhouse: Playhouse) -> None:
    """D2: the receipt is dropped with the reply; the audit mends the balance, and still it is told."""
    stage = _crash(playhouse, "work", "settle", Kind.KILLED_AFTER)
    [client] = stage.clients
    run = client.accepted[0].run
    assert stage.world.ledger.client.delete(stage.world.ledger.keys.receipt(run.tenant_id, run.id)) == 1
    come_to_rest(stage)
    assert any("had to be mended" in broken for broken in broken_at_rest(stage))


@pytest.mark.parametrize("wrong", [1, -1])
def test_a_micro_too_much_or_too_little_is_found(playhouse: Playhouse, wrong: int) -> None:
    """D2: drift is found even where reconcile repairs it."""
    stage = _crash(playhouse, "work", "settle", Kind.REFUSED)
    ledger = stage.world.ledger
    cast(Any, ledger.client).incrby(ledger.keys.balance(stage.tenants[0].tenant_id), wrong)
    come_to_rest(stage)
    assert broken_at_rest(stage) != []


def test_an_object_that_nobody_points_at_is_found(playhouse: Playhouse) -> None:
    """RUN-19: whoever wrote it had lost the claim."""
    stage = _crash(playhouse, "work", "put_object", Kind.REFUSED)
    [client] = stage.clients
    come_to_rest(stage)
    stage.world.storage.put_json(f"dpp/{client.tenant.tenant_id}/stray.json", b"{}")
    assert [broken for broken in broken_at_rest(stage) if "nobody points at" in broken]


def test_paying_twice_for_one_key_is_found(playhouse: Playhouse) -> None:
    """RUN-4: the client was accepted once, and twice runs of theirs were worked on."""
    stage = _crash(playhouse, "submit", "mark_enqueued", Kind.KILLED_AFTER)
    come_to_rest(stage)
    [client] = stage.clients
    twin = replace(client.order, idempotency_key="another-key")
    submit(twin, client.tenant.caller, stage.world.submit_effects())
    come_to_rest(stage)
    with stage.world.database.connection() as connection:
        connection.execute("DROP INDEX runs_idempotency")
        try:
            connection.execute("UPDATE runs SET idempotency_key = %s", [client.order.idempotency_key])
            assert any("paid 100000 for 2 runs" in broken for broken in broken_at_rest(stage))
        finally:
            connection.execute("DELETE FROM run_inputs")
            connection.execute("SET session_replication_role = replica")  # else only tombstones go
            connection.execute("DELETE FROM runs")
            connection.execute("SET session_replication_role = origin")
            connection.execute(
                "CREATE UNIQUE INDEX runs_idempotency ON runs (tenant_id, idempotency_key) "
                "WHERE idempotency_released_at IS NULL"
            )
