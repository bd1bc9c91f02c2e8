"""`dpp ops`, as an operator types it, on real servers (TIX-6)."""

from contextlib import suppress
from uuid import uuid4

import pytest

from dpp.packs.contract import PackType
from dpp.runs.operations import switch
from dpp.tickets import stop
from dpp.tickets.config import ReaperSettings
from dpp.tickets.cycle import CycleEffects, run_cycle
from dpp.tickets.process import ProcessEffects
from dpp.tickets.reap import ReapEffects
from tests.local.shell import OperatorShell
from tests.support.world import World


def cycle(world: World) -> str:
    """One ops cycle with nobody's tickets; its id."""
    settings = ReaperSettings.load({})
    reaping = ReapEffects(world.database, world.storage, settings.zone)
    ran = run_cycle(CycleEffects(reaping, ProcessEffects(world.database, {}, settings.rules)))
    return str(ran.receipt.run_id)


def test_the_stop_is_set_and_cleared_with_a_reason_and_every_change_is_kept(shell: OperatorShell) -> None:
    """TIX-6."""
    assert shell.out("ops", "stops") == "the emergency stop was never set\n"
    assert shell.data("ops", "stops") == []
    assert shell.out("ops", "stop", "--reason", "a fire").startswith("emergency stop: SET, by kim: a fire (")
    assert shell.data("ops", "status")["emergency_stop"]["stopped"] is True
    assert "emergency stop" in shell.out("ops", "status")
    done = shell.out("ops", "resume", "--reason", "it is out", "--as", "lee")
    assert done.startswith("emergency stop: not set, by lee: it is out (")
    printed = shell.data("ops", "stops")
    assert [(one["stopped"], one["actor"], one["reason"]) for one in printed] == [
        (False, "lee", "it is out"),
        (True, "kim", "a fire"),
    ]
    table = shell.out("ops", "stops")
    assert table.index("it is out") < table.index("a fire")
    assert len(shell.data("ops", "stops", "--limit", "1")) == 1


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_a_change_without_reason_or_name_is_refused(
    shell: OperatorShell, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    assert shell.run("ops", command).exit_code == 2
    assert "--reason: String should have at least 1" in shell.refused("ops", command, "--reason", " ")
    assert "--reason: String should have at most 500" in shell.refused("ops", command, "--reason", "x" * 501)
    assert "reserved for the platform's own records" in shell.refused(
        "ops", command, "--reason", "why", "--as", "OPS_CYCLE"
    )
    monkeypatch.delenv("LOGNAME")
    monkeypatch.delenv("USER", raising=False)
    assert shell.refused("ops", command, "--reason", "why") == "no user name: add --as NAME"
    assert shell.data("ops", "stops") == []


def test_status_tells_what_is_disabled_and_how_the_last_cycle_ended(shell: OperatorShell, world: World) -> None:
    fresh = shell.out("ops", "status")
    assert "enabled (no ticket ever disabled a pack)" in fresh
    assert "none yet" in fresh
    printed = shell.data("ops", "status")
    assert (printed["execution"], printed["latest_receipt"]) == ([], None)

    decision = uuid4()
    world.using(
        switch.decide,
        scope=PackType.OCR,
        enabled=False,
        decision_id=decision,
        actor="kim",
        reason="too dear",
        decided_at=world.now(),
    )
    run_id = cycle(world)
    assert "execution of ocr  DISABLED, by kim: too dear" in shell.out("ops", "status")
    assert "COMPLETED, started " in shell.out("ops", "status")
    printed = shell.data("ops", "status")
    assert printed["latest_receipt"]["run_id"] == run_id
    [disabled] = printed["execution"]
    assert (disabled["scope"], disabled["enabled"], disabled["decision_id"]) == ("ocr", False, str(decision))
    assert disabled["decided_at"].endswith("+09:00")


def test_receipts_are_reported_step_by_step(shell: OperatorShell, world: World) -> None:
    """TIX-6."""
    assert shell.out("ops", "receipts") == "no ops cycle has run yet\n"
    assert shell.data("ops", "receipts") == []
    first = cycle(world)
    world.using(stop.decide, stopped=True, actor="lee", reason="a fire")
    second = cycle(world)
    printed = shell.data("ops", "receipts")
    assert [(one["run_id"], one["outcome"]) for one in printed] == [(second, "STOPPED"), (first, "COMPLETED")]
    assert printed[1]["ticket_reaper"]["decision"] == "NONE"
    assert len(shell.data("ops", "receipts", "--limit", "1")) == 1
    stopped, completed = shell.out("ops", "receipts").splitlines()[1:]
    assert stopped.split()[1:5] == ["STOPPED", "STOPPED", "SKIPPED", "SKIPPED"]
    assert "0 of 0 stale ended" in completed


def test_a_step_that_failed_says_what(shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise LookupError

    monkeypatch.setattr("dpp.tickets.cycle.reap", broken)
    monkeypatch.setattr("dpp.tickets.cycle.process.process_tickets", broken)
    cycle(world)
    assert "FAILED builtins.LookupError" in shell.out("ops", "receipts")


def test_a_cycle_that_died_at_once_is_shown_too(
    shell: OperatorShell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, suppress(Killed):
        patch.setattr("dpp.tickets.cycle._steps", die)
        cycle(world)
    assert "RUNNING" in shell.out("ops", "receipts")
    assert "RUNNING, started " in shell.out("ops", "status")


def test_the_stop_needs_no_redis(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    assert "SET" in shell.out("ops", "stop", "--reason", "redis is gone")
