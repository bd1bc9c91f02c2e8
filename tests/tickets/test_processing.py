"""Processing of tickets (TIX-6): in order, once, and again after a crashed processor."""

from contextlib import closing
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
from tests.support.stored import existing
from tests.tickets.environment import RULES, Environment


def outcomes(report: ProcessReport) -> list[TicketOutcome]:
    return [one.outcome for one in report.processed]


def test_tickets_are_processed_in_the_order_of_filing(env: Environment) -> None:
    filed = [env.file() for _ in range(4)]
    report = env.process_tickets()
    assert env.executor.carried_out == [ticket.request_id for ticket in filed]
    assert outcomes(report) == [TicketOutcome.DONE] * 4
    assert not report.stopped_early


def test_done_ticket_has_result_and_history(env: Environment) -> None:
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


def test_impossible_request_fails_with_the_reason(env: Environment) -> None:
    def refuse(_ticket: Ticket) -> str:
        raise TicketRefused("there is no tenant t_nobody")

    env.executor.does = refuse
    ticket, behind = env.file(), env.file()
    assert outcomes(env.process_tickets()) == [TicketOutcome.FAILED, TicketOutcome.FAILED]
    result = existing(env.details(ticket).result)
    assert (result.status, result.message) == (TicketStatus.FAILED, "there is no tenant t_nobody")
    assert env.ticket(behind).current_status is TicketStatus.FAILED


def test_long_message_is_cut(env: Environment) -> None:
    env.executor.does = lambda _: "x" * 5_000
    ticket = env.file()
    env.process_tickets()
    result = existing(env.details(ticket).result)
    assert result.message == "x" * 1_000


def test_dependency_failure_leaves_the_ticket_for_later(env: Environment) -> None:
    first, second = env.file(), env.file()

    def away(ticket: Ticket) -> str:
        if ticket.request_id == first.request_id and len(env.executor.carried_out) == 1:
            raise RedisUnavailable("away")
        return "done"

    env.executor.does = away
    assert outcomes(env.process_tickets()) == [TicketOutcome.LEFT, TicketOutcome.DONE]
    assert env.ticket(first).current_status is TicketStatus.IN_PROGRESS
    assert outcomes(env.process_tickets()) == []  # not before its processor has timed out
    assert outcomes(env.process_tickets(env.later(seconds=SILENT_SECONDS + 1))) == [TicketOutcome.DONE]
    assert env.executor.carried_out == [first.request_id, second.request_id, first.request_id]


def test_ticket_of_a_crashed_processor_comes_first(env: Environment) -> None:
    """A crash after the claim, at any point of the executor."""
    dead = env.in_progress(silent_seconds=SILENT_SECONDS + 1)
    waiting = env.file()
    env.process_tickets(processor_id="OPS_CYCLE/next")
    assert env.executor.carried_out == [dead.request_id, waiting.request_id]
    kept = env.details(dead).transitions
    assert [(one.from_status, one.to_status, one.actor, one.attempt) for one in kept[-2:]] == [
        (TicketStatus.IN_PROGRESS, TicketStatus.IN_PROGRESS, "OPS_CYCLE/next", 2),
        (TicketStatus.IN_PROGRESS, TicketStatus.DONE, "OPS_CYCLE/next", 2),
    ]


def test_stale_ticket_is_left_to_the_reaper(env: Environment) -> None:
    """Also after a failed or tripped reaper: no processor carries it out."""
    stale = env.stale()
    excluded = env.stale(request_type=RequestType.EXECUTION_ENABLE)
    assert outcomes(env.process_tickets()) == []
    # An excluded ticket is never stale, so a processor takes it again.
    rules = replace(RULES, excluded_types=(RequestType.EXECUTION_ENABLE,))
    process_tickets(env.process_effects(rules=rules), "OPS_CYCLE/test", ProcessReport())
    assert env.executor.carried_out == [excluded.request_id]
    assert env.ticket(stale).current_status is TicketStatus.IN_PROGRESS


def test_crash_before_the_result_repeats_the_request_with_the_same_id(env: Environment) -> None:
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


def test_ticket_that_crashes_every_processor_is_left_to_the_reaper(env: Environment) -> None:
    """Its last_processed_at stays then, so that it becomes stale."""
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


def test_locked_ticket_is_skipped(env: Environment) -> None:
    held, free = env.file(), env.file()
    with psycopg.connect(env.url) as other:
        other.execute("SELECT 1 FROM tickets WHERE request_id = %s FOR UPDATE", (held.request_id,))
        env.process_tickets()
        assert env.executor.carried_out == [free.request_id]
    env.process_tickets()
    assert env.executor.carried_out == [free.request_id, held.request_id]


def test_ticket_ended_meanwhile_keeps_its_result(env: Environment) -> None:
    """The reaper ended it during processing: the log shows that it was carried out, the result is the reaper's."""
    ticket = env.file()

    def reaped(_ticket: Ticket) -> str:
        assert env.reap(env.later(days=2)).report.cleaned_count == 1
        return "done"

    # The reaper is another process with its own connection.
    env.executor.does = reaped
    processing = env.process_effects()
    with closing(env.new_database()) as other:
        report = ProcessReport()
        process_tickets(replace(processing, database=other), "OPS_CYCLE/slow", report)
    assert outcomes(report) == [TicketOutcome.LOST]
    assert env.ticket(ticket).current_status is TicketStatus.FAILED


def test_tick_is_limited_in_number_and_time(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        env.file()
    monkeypatch.setattr(process, "BATCH_LIMIT", 3)
    report = env.process_tickets()
    assert (len(report.processed), report.stopped_early) == (3, True)
    env.file()
    monkeypatch.setattr(process, "TIME_LIMIT_SECONDS", -1.0)
    report = env.process_tickets()
    assert (len(report.processed), report.stopped_early) == (1, True)


def test_stop_ends_processing_after_the_result_is_stored(env: Environment) -> None:
    """TIX-6: the stop is checked before every write; an earlier effect gets its result."""
    first, second = env.file(), env.file()

    def set_stop(_ticket: Ticket) -> str:
        env.using(stop.decide, stopped=True, actor="lee", reason="now")
        return "done"

    env.executor.does = set_stop
    report = ProcessReport()
    with pytest.raises(EmergencyStopSet):
        process_tickets(env.process_effects(), "OPS_CYCLE/test", report)
    assert outcomes(report) == [TicketOutcome.DONE]
    assert env.ticket(first).current_status is TicketStatus.DONE
    assert env.ticket(second).current_status is TicketStatus.OPEN


def test_stop_after_the_claim_prevents_the_execution(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ticket is processed again after the stop is cleared."""
    ticket, real = env.file(), process._take

    def take_and_stop(*args: Any) -> Ticket | None:
        taken = real(*args)
        env.using(stop.decide, stopped=True, actor="lee", reason="now")
        return taken

    report = ProcessReport()
    with monkeypatch.context() as patch:
        patch.setattr(process, "_take", take_and_stop)
        with pytest.raises(EmergencyStopSet):
            process_tickets(env.process_effects(), "OPS_CYCLE/test", report)
    assert (env.executor.carried_out, outcomes(report)) == ([], [TicketOutcome.LEFT])
    env.using(stop.decide, stopped=False, actor="lee", reason="on")
    env.process_tickets(env.later(seconds=SILENT_SECONDS + 1))
    assert env.executor.carried_out == [ticket.request_id]


def test_setting_the_stop_waits_for_running_writes(env: Environment) -> None:
    """Each write holds the flag for its transaction, so the flag can't change between check and write."""
    with psycopg.connect(env.url) as writer:
        stop.require_clear(writer)
        with psycopg.connect(env.url, autocommit=True) as operator:
            operator.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                stop.decide(operator, stopped=True, actor="lee", reason="now")
        writer.commit()
    env.using(stop.decide, stopped=True, actor="lee", reason="now")
    with psycopg.connect(env.url) as writer, pytest.raises(EmergencyStopSet):
        stop.require_clear(writer)


def test_every_change_of_the_stop_is_stored(env: Environment) -> None:
    with env.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="lee", reason="a bad release")
        stop.decide(connection, stopped=False, actor="kim", reason="it was taken back")
        kept = stop.changes(connection, 10)
        assert stop.read(connection) == kept[0]
    assert [(one.stopped, one.actor, one.reason) for one in kept] == [
        (False, "kim", "it was taken back"),
        (True, "lee", "a bad release"),
    ]


def test_postgres_outage_ends_the_tick(env: Environment) -> None:
    env.file()

    def away(_ticket: Ticket) -> str:
        raise PostgresUnavailable("away")

    env.executor.does = away
    with pytest.raises(PostgresUnavailable):
        env.process_tickets()
