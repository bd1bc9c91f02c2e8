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
from dpp.tickets.process import MAX_ATTEMPTS, SILENT_SECONDS, ProcessReport, TicketOutcome, process_tickets
from tests.tickets.environment import RULES, Environment


def outcomes(report: ProcessReport) -> list[TicketOutcome]:
    return [one.outcome for one in report.processed]


def test_tickets_are_carried_out_in_the_order_of_filing(env: Environment) -> None:
    filed = [env.file() for _ in range(4)]
    report = env.process_tickets()
    assert env.executor.carried_out == [ticket.request_id for ticket in filed]
    assert outcomes(report) == [TicketOutcome.DONE] * 4
    assert not report.stopped_early


def test_a_ticket_that_is_done_has_its_result_and_history(env: Environment) -> None:
    """Every transition with its actor and time."""
    ticket = env.file()
    env.process_tickets(processor_id="OPS_CYCLE/seven")
    whole = env.details(ticket)
    assert whole.result is not None
    assert (whole.result.status, whole.result.message) == (TicketStatus.DONE, "DLQ_REDRIVE done")
    assert [(one.to_status, one.actor, one.attempt) for one in whole.transitions] == [
        (TicketStatus.OPEN, "kim", 0),
        (TicketStatus.IN_PROGRESS, "OPS_CYCLE/seven", 1),
        (TicketStatus.DONE, "OPS_CYCLE/seven", 1),
    ]


def test_what_cannot_be_done_fails_with_the_reason(env: Environment) -> None:
    def refuse(_ticket: Ticket) -> str:
        raise TicketRefused("there is no tenant t_nobody")

    env.executor.does = refuse
    ticket, behind = env.file(), env.file()
    assert outcomes(env.process_tickets()) == [TicketOutcome.FAILED, TicketOutcome.FAILED]
    result = env.details(ticket).result
    assert result is not None
    assert (result.status, result.message) == (TicketStatus.FAILED, "there is no tenant t_nobody")
    assert env.ticket(behind).current_status is TicketStatus.FAILED


def test_a_long_message_is_cut_and_not_lost(env: Environment) -> None:
    env.executor.does = lambda _: "x" * 5_000
    ticket = env.file()
    env.process_tickets()
    result = env.details(ticket).result
    assert result is not None
    assert result.message == "x" * 1_000


def test_a_dependency_that_is_away_leaves_the_ticket_for_later_and_goes_on(env: Environment) -> None:
    first, second = env.file(), env.file()

    def away(ticket: Ticket) -> str:
        if ticket.request_id == first.request_id and len(env.executor.carried_out) == 1:
            raise RedisUnavailable("away")
        return "done"

    env.executor.does = away
    assert outcomes(env.process_tickets()) == [TicketOutcome.LEFT, TicketOutcome.DONE]
    assert env.ticket(first).current_status is TicketStatus.IN_PROGRESS
    assert outcomes(env.process_tickets()) == []  # not before its processor must be gone
    assert outcomes(env.process_tickets(env.later(seconds=SILENT_SECONDS + 1))) == [TicketOutcome.DONE]
    assert env.executor.carried_out == [first.request_id, second.request_id, first.request_id]


def test_a_ticket_whose_processor_died_is_taken_before_those_filed_after_it(env: Environment) -> None:
    """A crash after the taking, whatever the executor had done by then."""
    dead = env.in_progress(silent_seconds=SILENT_SECONDS + 1)
    waiting = env.file()
    env.process_tickets(processor_id="OPS_CYCLE/next")
    assert env.executor.carried_out == [dead.request_id, waiting.request_id]
    kept = env.details(dead).transitions
    assert [(one.from_status, one.to_status, one.actor, one.attempt) for one in kept[-2:]] == [
        (TicketStatus.IN_PROGRESS, TicketStatus.IN_PROGRESS, "OPS_CYCLE/next", 2),
        (TicketStatus.IN_PROGRESS, TicketStatus.DONE, "OPS_CYCLE/next", 2),
    ]


def test_what_is_stale_is_the_reapers_alone(env: Environment) -> None:
    """Also where the reaper failed, or its breaker tripped: nobody takes it again and does it after all."""
    stale = env.stale()
    excluded = env.stale(request_type=RequestType.EXECUTION_ENABLE)
    assert outcomes(env.process_tickets()) == []
    # What is never stale is never the reaper's: it is taken again.
    rules = replace(RULES, excluded_types=(RequestType.EXECUTION_ENABLE,))
    process_tickets(env.process_effects(rules=rules), "OPS_CYCLE/test", ProcessReport())
    assert env.executor.carried_out == [excluded.request_id]
    assert env.ticket(stale).current_status is TicketStatus.IN_PROGRESS


def test_a_crash_between_the_deed_and_its_result_repeats_the_deed_by_the_same_id(env: Environment) -> None:
    ticket = env.file()

    class Killed(BaseException):
        pass

    def die(_ticket: Ticket) -> str:
        raise Killed

    env.executor.does = die
    with pytest.raises(Killed):
        env.process_tickets()
    env.executor.does = lambda _: "done"
    env.process_tickets(env.later(seconds=SILENT_SECONDS + 1))
    assert env.executor.carried_out == [ticket.request_id, ticket.request_id]
    assert env.ticket(ticket).current_status is TicketStatus.DONE


def test_one_that_kills_its_processor_each_time_is_left_to_the_reaper(env: Environment) -> None:
    """Its last_processed_at rests then, so that the reaper's day begins."""
    ticket, at = env.file(), env.now()

    def away(_ticket: Ticket) -> str:
        raise RedisUnavailable("away")

    env.executor.does = away
    for attempt in range(MAX_ATTEMPTS + 3):
        env.process_tickets(at + attempt * timedelta(seconds=SILENT_SECONDS + 1))
    assert len(env.executor.carried_out) == MAX_ATTEMPTS
    left = env.ticket(ticket)
    assert (left.current_status, left.attempts) == (TicketStatus.IN_PROGRESS, MAX_ATTEMPTS)
    assert env.reap(at + timedelta(days=2)).report.cleaned_count == 1


def test_a_ticket_that_another_has_a_hand_on_is_no_reason_to_wait(env: Environment) -> None:
    held, free = env.file(), env.file()
    with psycopg.connect(env.url) as other:
        other.execute("SELECT 1 FROM tickets WHERE request_id = %s FOR UPDATE", (held.request_id,))
        env.process_tickets()
        assert env.executor.carried_out == [free.request_id]
    env.process_tickets()
    assert env.executor.carried_out == [free.request_id, held.request_id]


def test_one_that_was_ended_meanwhile_keeps_its_end(env: Environment) -> None:
    """The reaper took it while it was carried out: what was done is in the log, the result is the reaper's."""
    ticket = env.file()

    def reaped(_ticket: Ticket) -> str:
        assert env.reap(env.later(days=2)).report.cleaned_count == 1
        return "done"

    # The reaper is another process, with a connection of its own.
    env.executor.does = reaped
    processing = env.process_effects()
    other = env.new_database()
    try:
        report = ProcessReport()
        process_tickets(replace(processing, database=other), "OPS_CYCLE/slow", report)
    finally:
        other.close()
    assert outcomes(report) == [TicketOutcome.LOST]
    assert env.ticket(ticket).current_status is TicketStatus.FAILED


def test_a_firing_is_bounded_in_number_and_in_time(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        env.file()
    monkeypatch.setattr(process, "BATCH_LIMIT", 3)
    report = env.process_tickets()
    assert (len(report.processed), report.stopped_early) == (3, True)
    env.file()
    monkeypatch.setattr(process, "TIME_LIMIT_SECONDS", -1.0)
    report = env.process_tickets()
    assert (len(report.processed), report.stopped_early) == (1, True)


def test_the_stop_set_under_way_ends_the_taking_but_not_the_record(env: Environment) -> None:
    """TIX-6: read again before every write; what was done before it is written down."""
    first, second = env.file(), env.file()

    def set_stop(_ticket: Ticket) -> str:
        with env.database.connection() as connection:
            stop.decide(connection, stopped=True, actor="lee", reason="now")
        return "done"

    env.executor.does = set_stop
    report = ProcessReport()
    with pytest.raises(EmergencyStopSet):
        process_tickets(env.process_effects(), "OPS_CYCLE/test", report)
    assert outcomes(report) == [TicketOutcome.DONE]
    assert env.ticket(first).current_status is TicketStatus.DONE
    assert env.ticket(second).current_status is TicketStatus.OPEN


def test_the_stop_set_between_the_taking_and_the_deed_prevents_the_deed(
    env: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticket is taken again once the stop is cleared."""
    ticket, real = env.file(), process._take

    def take_and_stop(*args: Any) -> Ticket | None:
        taken = real(*args)
        with env.database.connection() as connection:
            stop.decide(connection, stopped=True, actor="lee", reason="now")
        return taken

    report = ProcessReport()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_take", take_and_stop)
        with pytest.raises(EmergencyStopSet):
            process_tickets(env.process_effects(), "OPS_CYCLE/test", report)
    assert (env.executor.carried_out, outcomes(report)) == ([], [TicketOutcome.LEFT])
    with env.database.connection() as connection:
        stop.decide(connection, stopped=False, actor="lee", reason="on")
    env.process_tickets(env.later(seconds=SILENT_SECONDS + 1))
    assert env.executor.carried_out == [ticket.request_id]


def test_the_stop_waits_for_the_write_that_is_under_way_and_nothing_begins_after_it(env: Environment) -> None:
    """The flag is held for the transaction of each write: there is no moment between the look and the write."""
    with psycopg.connect(env.url) as writer:
        stop.require_clear(writer)
        with psycopg.connect(env.url, autocommit=True) as operator:
            operator.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                stop.decide(operator, stopped=True, actor="lee", reason="now")
        writer.commit()
    with env.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="lee", reason="now")
    with psycopg.connect(env.url) as writer, pytest.raises(EmergencyStopSet):
        stop.require_clear(writer)


def test_every_change_of_the_stop_is_kept(env: Environment) -> None:
    with env.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="lee", reason="a bad release")
        stop.decide(connection, stopped=False, actor="kim", reason="it was taken back")
        kept = stop.changes(connection, 10)
        assert stop.read(connection) == kept[0]
    assert [(one.stopped, one.actor, one.reason) for one in kept] == [
        (False, "kim", "it was taken back"),
        (True, "lee", "a bad release"),
    ]


def test_postgres_away_ends_the_firing(env: Environment) -> None:
    env.file()

    def away(_ticket: Ticket) -> str:
        raise PostgresUnavailable("away")

    env.executor.does = away
    with pytest.raises(PostgresUnavailable):
        env.process_tickets()
