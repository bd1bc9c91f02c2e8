"""The ops cycle (000 §7; TIX-6, TIX-7): emergency stop, reaper and tickets, with a receipt."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from dpp.platform.db.postgres import Database
from dpp.platform.errors import StorageUnavailable
from dpp.tickets import counters, cycle, stop
from dpp.tickets.cycle import LEASE_SECONDS
from dpp.tickets.errors import CycleRunning, EmergencyStopSet, NoReceiptYet
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.receipt import CycleOutcome, StepOutcome
from tests.support.faults import Flaky
from tests.tickets.environment import RULES, Environment


def receipts(env: Environment, limit: int = 10) -> list[dict[str, Any]]:
    return env.using(cycle.latest, limit)


def set_stop(env: Environment, *, stopped: bool) -> None:
    env.using(stop.decide, stopped=stopped, actor="lee", reason="a bad release")


def test_reaper_runs_after_the_stop_and_before_the_tickets(env: Environment) -> None:
    """Step 0.25: a stale ticket is ended before an open one is processed."""
    order: list[str] = []
    stale, waiting = env.stale(), env.file()

    def note(ticket: Ticket) -> str:
        order.append(env.ticket(stale).current_status)
        return "done"

    env.executor.does = note
    done = env.cycle().receipt
    assert order == [TicketStatus.FAILED]
    assert env.executor.carried_out == [waiting.request_id]
    assert done.outcome is CycleOutcome.COMPLETED


def test_receipt_has_every_step(env: Environment) -> None:
    """ops_run_receipt.ticket_reaper has the figures of the report, and a reference to it."""
    env.stale()
    waiting = env.file()
    env.cycle(datetime.fromisoformat("2036-01-23T12:00:00+00:00"))
    (receipt,) = receipts(env)
    assert receipt["schema"] == "OPS_RUN_RECEIPT_V1"
    assert receipt["outcome"] == "COMPLETED"
    assert receipt["started_at"] == "2036-01-23T21:00:00+09:00"
    assert receipt["emergency_stop"]["step"] == "0"
    assert receipt["emergency_stop"]["stopped"] is False
    assert receipt["emergency_stop"]["changed_at"].endswith("+09:00")
    assert receipt["ticket_reaper"] == {
        "step": "0.25",
        "outcome": "OK",
        "decision": "CLEANED",
        "threshold_seconds": 86_400,
        "stale_count": 1,
        "cleaned_count": 1,
        "evidence_refs": ["reports/ops/tickets/reaper/snapshots/reaper_20360123_210000.json"],
        "breaker_tripped": False,
        "published": True,
    }
    assert receipt["tickets"]["items"] == [
        {"request_id": str(waiting.request_id), "request_type": "DLQ_REDRIVE", "outcome": "DONE"}
    ]
    assert receipt["tickets"]["done"] == 1


def test_stop_skips_all_later_steps(env: Environment) -> None:
    stale, waiting = env.stale(), env.file()
    set_stop(env, stopped=True)
    done = env.cycle()
    assert done.receipt.outcome is CycleOutcome.STOPPED
    (receipt,) = receipts(env)
    assert (receipt["emergency_stop"]["outcome"], receipt["emergency_stop"]["reason"]) == ("STOPPED", "a bad release")
    assert (receipt["ticket_reaper"]["outcome"], receipt["tickets"]["outcome"]) == ("SKIPPED", "SKIPPED")
    assert env.ticket(stale).current_status is TicketStatus.IN_PROGRESS
    assert env.ticket(waiting).current_status is TicketStatus.OPEN
    assert env.objects() == {}
    set_stop(env, stopped=False)
    assert env.cycle().receipt.outcome is CycleOutcome.COMPLETED
    assert env.ticket(waiting).current_status is TicketStatus.DONE


def test_stop_during_the_reaper_stops_the_tickets(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = env.file()

    def stopped(*_args: Any) -> None:
        raise EmergencyStopSet("lee", "now")

    monkeypatch.setattr(cycle, "reap", stopped)
    done = env.cycle().receipt
    assert done.outcome is CycleOutcome.STOPPED
    assert done.ticket_reaper is not None
    assert done.tickets is not None
    assert (done.ticket_reaper.outcome, done.tickets.outcome) == (StepOutcome.STOPPED, StepOutcome.SKIPPED)
    assert env.ticket(waiting).current_status is TicketStatus.OPEN


def test_stop_between_two_tickets_stops_the_second(env: Environment) -> None:
    first, second = env.file(), env.file()

    def stopping(_ticket: Ticket) -> str:
        set_stop(env, stopped=True)
        return "done"

    env.executor.does = stopping
    done = env.cycle().receipt
    assert done.tickets is not None
    assert (done.outcome, done.tickets.outcome) == (CycleOutcome.STOPPED, StepOutcome.STOPPED)
    assert [item.request_id for item in done.tickets.items] == [first.request_id]
    assert env.ticket(second).current_status is TicketStatus.OPEN


def test_failed_reaper_is_recorded_and_does_not_stop_the_cycle(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = env.file()

    def broken(*_args: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(cycle, "reap", broken)
    done = env.cycle()
    assert done.receipt.ticket_reaper is not None
    assert done.receipt.ticket_reaper.outcome is StepOutcome.FAILED
    assert (
        done.receipt.ticket_reaper.error == "builtins.ZeroDivisionError"
    )  # the class only; a message may have user data
    assert done.receipt.outcome is CycleOutcome.FAILED
    assert env.ticket(waiting).current_status is TicketStatus.DONE


def test_running_reaper_of_an_operator_is_recorded(env: Environment) -> None:
    env.rows(
        "INSERT INTO exclusive_leases VALUES ('TICKET_REAPER', gen_random_uuid(), 'kim', now(),"
        " now() + interval '60 seconds') RETURNING 1"
    )
    done = env.cycle().receipt
    assert done.ticket_reaper is not None
    assert (done.ticket_reaper.outcome, done.outcome) == (StepOutcome.SKIPPED, CycleOutcome.COMPLETED)
    assert "by kim" in (done.ticket_reaper.error or "")


def test_s3_outage_does_not_fail_the_reaper(env: Environment) -> None:
    """Its report is in Postgres; the receipt shows that it is not published."""
    away = Flaky(env.storage, StorageUnavailable, before={"put_json"})
    done = env.cycle(storage=away).receipt
    assert done.ticket_reaper is not None
    assert (done.ticket_reaper.outcome, done.ticket_reaper.published) == (StepOutcome.OK, False)


def test_bug_in_an_executor_fails_the_step_and_the_next_cycle_continues(env: Environment) -> None:
    broken, behind = env.file(), env.file()

    def defect(ticket: Ticket) -> str:
        if ticket.request_id == broken.request_id:
            raise ZeroDivisionError
        return "done"

    env.executor.does = defect
    done = env.cycle().receipt
    assert done.tickets is not None
    assert (done.tickets.outcome, done.tickets.error) == (StepOutcome.FAILED, "builtins.ZeroDivisionError")
    assert [(item.request_id, item.outcome) for item in done.tickets.items] == [(broken.request_id, "LEFT")]
    assert env.cycle().receipt.outcome is CycleOutcome.COMPLETED
    assert env.ticket(behind).current_status is TicketStatus.DONE
    assert env.ticket(broken).current_status is TicketStatus.IN_PROGRESS


def test_one_cycle_at_a_time(env: Environment) -> None:
    env.file()

    def second(_ticket: Ticket) -> str:
        with pytest.raises(CycleRunning):
            env.cycle()
        return "done"

    env.executor.does = second
    assert env.cycle().receipt.outcome is CycleOutcome.COMPLETED
    assert len(receipts(env)) == 1


@pytest.mark.parametrize("where", ["reaper", "tickets"])
def test_receipt_of_a_crashed_cycle_becomes_abandoned(
    env: Environment, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease delays the next cycle, which then marks the receipt."""
    env.file()

    class Killed(BaseException):
        pass

    def die(*_args: Any) -> Any:
        # A killed process releases no lease.
        monkeypatch.setattr(Database, "connection", _no_connection)
        raise Killed

    real = Database.connection
    if where == "reaper":
        monkeypatch.setattr(cycle, "reap", die)
    else:
        env.executor.does = die
    with pytest.raises((Killed, AssertionError)):
        env.cycle()
    monkeypatch.setattr(Database, "connection", real)
    with pytest.raises(CycleRunning):
        env.cycle()
    monkeypatch.undo()
    env.executor.does = lambda _: "done"
    env.cycle(env.later(seconds=LEASE_SECONDS + 1))
    newest, dead = receipts(env)
    assert newest["outcome"] == "COMPLETED"
    assert dead["outcome"] == "ABANDONED"
    assert dead["finished_at"] is not None
    assert dead["emergency_stop"]["stopped"] is False
    assert ("ticket_reaper" in dead) is (where == "tickets")


def _no_connection(_database: Database) -> Any:
    raise AssertionError("this process is dead")


def test_there_is_no_receipt_before_the_first_cycle(env: Environment) -> None:
    with pytest.raises(NoReceiptYet):
        env.using(cycle.latest)


class TestCounters:
    """TIX-7: the ops counters."""

    def count(self, env: Environment, now: datetime | None = None) -> Any:
        return env.using(counters.count, RULES, now)

    def test_stale_tickets_are_not_counted_as_in_progress(self, env: Environment) -> None:
        env.file(RequestType.BUDGET_CREDIT)
        working = env.in_progress(silent_seconds=60)
        stale = env.stale(hours=30)
        env.stale(hours=26)
        found = self.count(env)
        total = found.total
        assert (total.open.count, total.in_progress.count, total.stale.count) == (1, 1, 2)
        assert total.in_progress.oldest_at == working.last_processed_at
        assert total.stale.oldest_at == stale.last_processed_at
        assert found.by_type[RequestType.BUDGET_CREDIT].open.count == 1
        assert found.by_type[RequestType.DLQ_REDRIVE].stale.count == 2
        assert set(found.by_type) == set(RequestType)

    def test_tickets_ended_by_the_reaper_are_counted_as_failed(self, env: Environment) -> None:
        env.stale()
        env.file()
        env.cycle()
        found = self.count(env).total
        assert (found.stale.count, found.in_progress.count, found.open.count) == (0, 0, 0)
        assert (found.failed.last_day, found.done.last_day) == (1, 1)
        after = self.count(env, env.later(days=2)).total
        assert (after.failed.last_day, after.failed.last_week) == (0, 1)
        assert self.count(env, env.later(days=8)).total.failed.last_week == 0

    def test_empty_counters_are_zero(self, env: Environment) -> None:
        found = self.count(env)
        assert (found.total.open.count, found.total.open.oldest_at) == (0, None)
        assert all(one == counters.Counters() for one in found.by_type.values())


@pytest.mark.parametrize("count_of", [lambda c: c.counters, lambda c: c.reaped, lambda c: c.processed])
def test_cycle_returns_its_counters(env: Environment, count_of: Callable[[Any], Any]) -> None:
    assert count_of(env.cycle()) is not None
