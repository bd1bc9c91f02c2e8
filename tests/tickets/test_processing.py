"""Taking tickets and carrying them out (TIX-6): in order, once, and again where a processor died."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from dpp.platform.errors import PostgresUnavailable, RedisUnavailable
from dpp.tickets import process, stop
from dpp.tickets.errors import EmergencyStopSet, TicketRefused
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.process import MAX_ATTEMPTS, SILENT_SECONDS, Outcome, ProcessReport, work_through
from tests.tickets.conftest import RULES, Desk


def outcomes(report: ProcessReport) -> list[Outcome]:
    return [one.outcome for one in report.processed]


def test_tickets_are_carried_out_in_the_order_of_filing(desk: Desk) -> None:
    filed = [desk.file() for _ in range(4)]
    report = desk.work_through()
    assert desk.hand.carried_out == [ticket.request_id for ticket in filed]
    assert outcomes(report) == [Outcome.DONE] * 4
    assert not report.stopped_early


def test_a_ticket_that_is_done_has_its_result_and_history(desk: Desk) -> None:
    """Every transition with its actor and time."""
    ticket = desk.file()
    desk.work_through(processor_id="OPS_CYCLE/seven")
    whole = desk.whole(ticket)
    assert whole.result is not None
    assert (whole.result.status, whole.result.message) == (TicketStatus.DONE, "DLQ_REDRIVE done")
    assert [(one.to_status, one.actor, one.attempt) for one in whole.transitions] == [
        (TicketStatus.OPEN, "kim", 0),
        (TicketStatus.IN_PROGRESS, "OPS_CYCLE/seven", 1),
        (TicketStatus.DONE, "OPS_CYCLE/seven", 1),
    ]


def test_what_cannot_be_done_fails_with_the_reason(desk: Desk) -> None:
    def refuse(_ticket: Ticket) -> str:
        raise TicketRefused("there is no tenant t_nobody")

    desk.hand.does = refuse
    ticket, behind = desk.file(), desk.file()
    assert outcomes(desk.work_through()) == [Outcome.FAILED, Outcome.FAILED]
    result = desk.whole(ticket).result
    assert result is not None
    assert (result.status, result.message) == (TicketStatus.FAILED, "there is no tenant t_nobody")
    assert desk.ticket(behind).current_status is TicketStatus.FAILED


def test_a_long_message_is_cut_and_not_lost(desk: Desk) -> None:
    desk.hand.does = lambda _: "x" * 5_000
    ticket = desk.file()
    desk.work_through()
    result = desk.whole(ticket).result
    assert result is not None
    assert result.message == "x" * 1_000


def test_a_dependency_that_is_away_leaves_the_ticket_for_later_and_goes_on(desk: Desk) -> None:
    first, second = desk.file(), desk.file()

    def away(ticket: Ticket) -> str:
        if ticket.request_id == first.request_id and len(desk.hand.carried_out) == 1:
            raise RedisUnavailable("away")
        return "done"

    desk.hand.does = away
    assert outcomes(desk.work_through()) == [Outcome.LEFT, Outcome.DONE]
    assert desk.ticket(first).current_status is TicketStatus.IN_PROGRESS
    assert outcomes(desk.work_through()) == []  # not before its processor must be gone
    assert outcomes(desk.work_through(desk.later(seconds=SILENT_SECONDS + 1))) == [Outcome.DONE]
    assert desk.hand.carried_out == [first.request_id, second.request_id, first.request_id]


def test_a_ticket_whose_processor_died_is_taken_before_those_filed_after_it(desk: Desk) -> None:
    """A crash after the taking, whatever the executor had done by then."""
    dead = desk.taken(silent_seconds=SILENT_SECONDS + 1)
    waiting = desk.file()
    desk.work_through(processor_id="OPS_CYCLE/next")
    assert desk.hand.carried_out == [dead.request_id, waiting.request_id]
    kept = desk.whole(dead).transitions
    assert [(one.from_status, one.to_status, one.actor, one.attempt) for one in kept[-2:]] == [
        (TicketStatus.IN_PROGRESS, TicketStatus.IN_PROGRESS, "OPS_CYCLE/next", 2),
        (TicketStatus.IN_PROGRESS, TicketStatus.DONE, "OPS_CYCLE/next", 2),
    ]


def test_what_is_stale_is_the_reapers_alone(desk: Desk) -> None:
    """Also where the reaper failed, or its breaker tripped: nobody takes it again and does it after all."""
    stale = desk.stale()
    excluded = desk.stale(request_type=RequestType.EXECUTION_ENABLE)
    assert outcomes(desk.work_through()) == []
    # What is never stale is never the reaper's: it is taken again.
    rules = replace(RULES, excluded_types=(RequestType.EXECUTION_ENABLE,))
    work_through(desk.processing(rules=rules), "OPS_CYCLE/test", ProcessReport())
    assert desk.hand.carried_out == [excluded.request_id]
    assert desk.ticket(stale).current_status is TicketStatus.IN_PROGRESS


def test_a_crash_between_the_deed_and_its_result_repeats_the_deed_by_the_same_id(desk: Desk) -> None:
    ticket = desk.file()

    class Killed(BaseException):
        pass

    def die(_ticket: Ticket) -> str:
        raise Killed

    desk.hand.does = die
    with pytest.raises(Killed):
        desk.work_through()
    desk.hand.does = lambda _: "done"
    desk.work_through(desk.later(seconds=SILENT_SECONDS + 1))
    assert desk.hand.carried_out == [ticket.request_id, ticket.request_id]
    assert desk.ticket(ticket).current_status is TicketStatus.DONE


def test_one_that_kills_its_processor_each_time_is_left_to_the_reaper(desk: Desk) -> None:
    """Its last_processed_at rests then, so that the reaper's day begins."""
    ticket, at = desk.file(), desk.now()

    def away(_ticket: Ticket) -> str:
        raise RedisUnavailable("away")

    desk.hand.does = away
    for attempt in range(MAX_ATTEMPTS + 3):
        desk.work_through(at + attempt * timedelta(seconds=SILENT_SECONDS + 1))
    assert len(desk.hand.carried_out) == MAX_ATTEMPTS
    left = desk.ticket(ticket)
    assert (left.current_status, left.attempts) == (TicketStatus.IN_PROGRESS, MAX_ATTEMPTS)
    assert desk.reap(at + timedelta(days=2)).report.cleaned_count == 1


def test_a_ticket_that_another_has_a_hand_on_is_no_reason_to_wait(desk: Desk) -> None:
    held, free = desk.file(), desk.file()
    with psycopg.connect(desk.url) as other:
        other.execute("SELECT 1 FROM tickets WHERE request_id = %s FOR UPDATE", (held.request_id,))
        desk.work_through()
        assert desk.hand.carried_out == [free.request_id]
    desk.work_through()
    assert desk.hand.carried_out == [free.request_id, held.request_id]


def test_one_that_was_ended_meanwhile_keeps_its_end(desk: Desk) -> None:
    """The reaper took it while it was carried out: what was done is in the log, the result is the reaper's."""
    ticket = desk.file()

    def reaped(_ticket: Ticket) -> str:
        assert desk.reap(desk.later(days=2)).report.cleaned_count == 1
        return "done"

    # The reaper is another process, with a connection of its own.
    desk.hand.does = reaped
    processing = desk.processing()
    other = desk.new_database()
    try:
        report = ProcessReport()
        work_through(replace(processing, database=other), "OPS_CYCLE/slow", report)
    finally:
        other.close()
    assert outcomes(report) == [Outcome.LOST]
    assert desk.ticket(ticket).current_status is TicketStatus.FAILED


def test_a_firing_is_bounded_in_number_and_in_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        desk.file()
    monkeypatch.setattr(process, "BATCH_LIMIT", 3)
    report = desk.work_through()
    assert (len(report.processed), report.stopped_early) == (3, True)
    desk.file()
    monkeypatch.setattr(process, "TIME_LIMIT_SECONDS", -1.0)
    report = desk.work_through()
    assert (len(report.processed), report.stopped_early) == (1, True)


def test_the_stop_set_under_way_ends_the_taking_but_not_the_record(desk: Desk) -> None:
    """TIX-6: read again before every write; what was done before it is written down."""
    first, second = desk.file(), desk.file()

    def set_stop(_ticket: Ticket) -> str:
        with desk.database.connection() as connection:
            stop.decide(connection, stopped=True, actor="lee", reason="now")
        return "done"

    desk.hand.does = set_stop
    report = ProcessReport()
    with pytest.raises(EmergencyStopSet):
        work_through(desk.processing(), "OPS_CYCLE/test", report)
    assert outcomes(report) == [Outcome.DONE]
    assert desk.ticket(first).current_status is TicketStatus.DONE
    assert desk.ticket(second).current_status is TicketStatus.OPEN


def test_the_stop_set_between_the_taking_and_the_deed_prevents_the_deed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticket is taken again once the stop is cleared."""
    ticket, real = desk.file(), process._take

    def take_and_stop(*args: Any) -> Ticket | None:
        taken = real(*args)
        with desk.database.connection() as connection:
            stop.decide(connection, stopped=True, actor="lee", reason="now")
        return taken

    report = ProcessReport()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_take", take_and_stop)
        with pytest.raises(EmergencyStopSet):
            work_through(desk.processing(), "OPS_CYCLE/test", report)
    assert (desk.hand.carried_out, outcomes(report)) == ([], [Outcome.LEFT])
    with desk.database.connection() as connection:
        stop.decide(connection, stopped=False, actor="lee", reason="on")
    desk.work_through(desk.later(seconds=SILENT_SECONDS + 1))
    assert desk.hand.carried_out == [ticket.request_id]


def test_the_stop_waits_for_the_write_that_is_under_way_and_nothing_begins_after_it(desk: Desk) -> None:
    """The flag is held for the transaction of each write: there is no moment between the look and the write."""
    with psycopg.connect(desk.url) as writer:
        stop.require_clear(writer)
        with psycopg.connect(desk.url, autocommit=True) as operator:
            operator.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                stop.decide(operator, stopped=True, actor="lee", reason="now")
        writer.commit()
    with desk.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="lee", reason="now")
    with psycopg.connect(desk.url) as writer, pytest.raises(EmergencyStopSet):
        stop.require_clear(writer)


def test_every_change_of_the_stop_is_kept(desk: Desk) -> None:
    with desk.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="lee", reason="a bad release")
        stop.decide(connection, stopped=False, actor="kim", reason="it was taken back")
        kept = stop.changes(connection, 10)
        assert stop.read(connection) == kept[0]
    assert [(one.stopped, one.actor, one.reason) for one in kept] == [
        (False, "kim", "it was taken back"),
        (True, "lee", "a bad release"),
    ]


def test_postgres_away_ends_the_firing(desk: Desk) -> None:
    desk.file()

    def away(_ticket: Ticket) -> str:
        raise PostgresUnavailable("away")

    desk.hand.does = away
    with pytest.raises(PostgresUnavailable):
        desk.work_through()
