"""The ops cycle (000 §7; TIX-6, TIX-7): stop, reaper, tickets; and a receipt that tells all of it."""

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
    with env.database.connection() as connection:
        return cycle.latest(connection, limit)


def set_stop(env: Environment, *, stopped: bool) -> None:
    with env.database.connection() as connection:
        stop.decide(connection, stopped=stopped, actor="lee", reason="a bad release")


def test_the_reaper_runs_after_the_stop_and_before_the_tickets(env: Environment) -> None:
    """Step 0.25: a stale ticket of yesterday is ended before one of today is taken."""
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


def test_the_receipt_tells_every_step(env: Environment) -> None:
    """ops_run_receipt.ticket_reaper has the report's own figures and leads to it."""
    env.stale()
    waiting = env.file()
    env.cycle(datetime.fromisoformat("2036-01-23T12:00:00+00:00"))
    (told,) = receipts(env)
    assert told["schema"] == "OPS_RUN_RECEIPT_V1"
    assert told["outcome"] == "COMPLETED"
    assert told["started_at"] == "2036-01-23T21:00:00+09:00"
    assert told["emergency_stop"]["step"] == "0"
    assert told["emergency_stop"]["stopped"] is False
    assert told["emergency_stop"]["changed_at"].endswith("+09:00")
    assert told["ticket_reaper"] == {
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
    assert told["tickets"]["items"] == [
        {"request_id": str(waiting.request_id), "request_type": "DLQ_REDRIVE", "outcome": "DONE"}
    ]
    assert told["tickets"]["done"] == 1


def test_the_stop_stops_everything_after_it_and_the_receipt_says_so(env: Environment) -> None:
    stale, waiting = env.stale(), env.file()
    set_stop(env, stopped=True)
    done = env.cycle()
    assert done.receipt.outcome is CycleOutcome.STOPPED
    (told,) = receipts(env)
    assert (told["emergency_stop"]["outcome"], told["emergency_stop"]["reason"]) == (
        "STOPPED",
        "a bad release",
    )
    assert (told["ticket_reaper"]["outcome"], told["tickets"]["outcome"]) == ("SKIPPED", "SKIPPED")
    assert env.ticket(stale).current_status is TicketStatus.IN_PROGRESS
    assert env.ticket(waiting).current_status is TicketStatus.OPEN
    assert env.objects() == {}
    set_stop(env, stopped=False)
    assert env.cycle().receipt.outcome is CycleOutcome.COMPLETED
    assert env.ticket(waiting).current_status is TicketStatus.DONE


def test_the_stop_set_while_the_reaper_runs_stops_the_tickets(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_stop_set_between_two_tickets_stops_the_second(env: Environment) -> None:
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


def test_a_failing_reaper_is_recorded_and_does_not_stop_the_cycle(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = env.file()

    def broken(*_args: Any) -> None:
        raise ZeroDivisionError("a defect of ours")

    monkeypatch.setattr(cycle, "reap", broken)
    done = env.cycle()
    assert done.receipt.ticket_reaper is not None
    assert done.receipt.ticket_reaper.outcome is StepOutcome.FAILED
    assert (
        done.receipt.ticket_reaper.error == "builtins.ZeroDivisionError"
    )  # its class; the message may quote
    assert done.receipt.outcome is CycleOutcome.FAILED
    assert env.ticket(waiting).current_status is TicketStatus.DONE


def test_a_reaper_that_somebody_runs_by_hand_is_recorded(env: Environment) -> None:
    env.rows(
        "INSERT INTO exclusive_leases VALUES ('TICKET_REAPER', gen_random_uuid(), 'kim', now(),"
        " now() + interval '60 seconds') RETURNING 1"
    )
    done = env.cycle().receipt
    assert done.ticket_reaper is not None
    assert (done.ticket_reaper.outcome, done.outcome) == (StepOutcome.SKIPPED, CycleOutcome.COMPLETED)
    assert "by kim" in (done.ticket_reaper.error or "")


def test_s3_down_is_no_failure_of_the_reaper(env: Environment) -> None:
    """Its report stands in Postgres; the receipt says that the copies do not."""
    away = Flaky(env.storage, StorageUnavailable, before={"put_json"})
    done = env.cycle(storage=away).receipt
    assert done.ticket_reaper is not None
    assert (done.ticket_reaper.outcome, done.ticket_reaper.published) == (StepOutcome.OK, False)


def test_a_defect_in_an_executor_fails_the_step_and_the_next_cycle_goes_on_behind_it(
    env: Environment,
) -> None:
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
def test_a_cycle_that_died_leaves_what_it_did_and_is_called_abandoned(
    env: Environment, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease holds the next one off until it must be dead; that one says so."""
    env.file()

    class Killed(BaseException):
        pass

    def die(*_args: Any) -> Any:
        # A process that is killed gives nothing back.
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


def test_before_the_first_cycle_there_is_no_receipt(env: Environment) -> None:
    with env.database.connection() as connection, pytest.raises(NoReceiptYet):
        cycle.latest(connection)


class TestCounters:
    """TIX-7: what the ops counters say."""

    def count(self, env: Environment, now: datetime | None = None) -> Any:
        with env.database.connection() as connection:
            return counters.count(connection, RULES, now)

    def test_stale_ones_are_counted_as_stale_and_not_as_in_progress(self, env: Environment) -> None:
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

    def test_what_the_reaper_ended_is_counted_as_failed(self, env: Environment) -> None:
        env.stale()
        env.file()
        env.cycle()
        found = self.count(env).total
        assert (found.stale.count, found.in_progress.count, found.open.count) == (0, 0, 0)
        assert (found.failed.last_day, found.done.last_day) == (1, 1)
        after = self.count(env, env.later(days=2)).total
        assert (after.failed.last_day, after.failed.last_week) == (0, 1)
        assert self.count(env, env.later(days=8)).total.failed.last_week == 0

    def test_nothing_is_zeros(self, env: Environment) -> None:
        found = self.count(env)
        assert (found.total.open.count, found.total.open.oldest_at) == (0, None)
        assert all(one == counters.Counters() for one in found.by_type.values())


@pytest.mark.parametrize("count_of", [lambda c: c.counters, lambda c: c.reaped, lambda c: c.processed])
def test_a_cycle_brings_what_is_measured(env: Environment, count_of: Callable[[Any], Any]) -> None:
    assert count_of(env.cycle()) is not None
