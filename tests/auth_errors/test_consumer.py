"""Delivered at least once, in any order, to consumers that die: each takes effect once (AUTH-3, AUTH-5, AUTH-7)."""

import json
import threading
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from dpp.auth_errors.errors import OutboxConflict
from dpp.auth_errors.machine import AuthErrorStatus, ProcessedStatus
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import LEASE_SECONDS, Consumed, Outcome, consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import HANDLERS, Handled, on_analysis_requested, on_recorded
from dpp.auth_errors.outbox.message import Message
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import QueueUnavailable
from tests.auth_errors.conftest import DEAD_LETTERS, EVENTS, WAKE, Desk, reasons


class _Fault(Exception):
    """A handler's own."""


def _fails(*_: object) -> Handled:
    raise _Fault("with the words of a service")


class TestOnce:
    """AUTH-5: one ledger row an event, one effect a row."""

    def test_from_recorded_to_analysed(self, desk: Desk) -> None:
        """AUTH-9: both events, in their order."""
        auth_error_id = desk.post()
        desk.publish()
        (first,) = desk.deliver()
        assert (first.outcome, first.event_type) == (Outcome.HANDLED, EventType.RECORDED)
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED
        assert len(desk.sqs.of(WAKE)) == 2  # the post, and the second event
        desk.publish()
        (second,) = desk.deliver()
        assert (second.outcome, second.event_type) == (Outcome.HANDLED, EventType.ANALYSIS_REQUESTED)
        whole = desk.whole(auth_error_id)
        assert whole.error.status is AuthErrorStatus.ANALYSIS_COMPLETED
        assert [one.error_count for one in whole.clusters] == [1]
        assert [one.to_status for one in whole.transitions] == [
            "NEW",
            "ANALYSIS_REQUESTED",
            "ANALYSIS_COMPLETED",
        ]
        assert [(one.processed_status, one.attempts) for one in whole.events] == [("DONE", 1), ("DONE", 1)]

    def test_a_message_that_comes_again_changes_nothing(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.settle()
        before = desk.whole(auth_error_id)
        for event_type in EventType:
            for _ in range(3):
                assert desk.consume(desk.message(auth_error_id, event_type)).outcome is Outcome.SKIPPED
        assert desk.whole(auth_error_id) == before

    def test_of_consumers_at_once_one_handles_it(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        message, start, found = desk.message(auth_error_id), threading.Barrier(4), list[Consumed]()

        def work() -> None:
            database = Database(desk.url)
            start.wait()
            found.append(consume(message, desk.consuming(database), desk.now))
            database.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.outcome for one in found].count(Outcome.HANDLED) == 1
        assert {one.outcome for one in found} <= {Outcome.HANDLED, Outcome.SKIPPED, Outcome.EARLY}
        assert desk.rows("SELECT count(*) FROM outbox_message") == [(2,)]
        assert desk.ledger(auth_error_id).attempts == 1

    def test_the_row_is_made_by_the_code_path_alone(self, desk: Desk) -> None:
        """004 §3.3: no default of the table's says anything, so a row that says nothing is refused."""
        desk.post()
        with pytest.raises(psycopg.errors.NotNullViolation):
            desk.rows("INSERT INTO processed_message (outbox_id) SELECT outbox_id FROM outbox_message")
        with pytest.raises(psycopg.errors.CheckViolation):
            desk.rows(
                "INSERT INTO processed_message SELECT outbox_id, 'DONE', 1, NULL, NULL, NULL, NULL, NULL, now(), now()"
                " FROM outbox_message"
            )
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            desk.rows(
                "INSERT INTO processed_message VALUES (99, 'PENDING', 0, NULL, NULL, NULL, NULL, NULL, now(), now())"
            )


class TestTerminal:
    """AUTH-3: what is terminal is skipped by every handler, whenever its event comes."""

    @pytest.mark.parametrize("event_type", list(EventType))
    @pytest.mark.parametrize("status", ["PROCESSED", "FAILED", "RESOLVED", "IGNORED"])
    def test_a_terminal_error_is_skipped(self, desk: Desk, status: str, event_type: EventType) -> None:
        auth_error_id = desk.post()
        if event_type is EventType.ANALYSIS_REQUESTED:
            desk.publish()
            desk.deliver()
        analyzed = "now()" if status == "PROCESSED" else "NULL"
        desk.rows(
            "SET session_replication_role = replica;"
            f"UPDATE auth_error SET status = '{status}', analyzed_at = {analyzed}"
        )
        before = desk.error(auth_error_id)
        consumed = desk.consume(desk.message(auth_error_id, event_type))
        assert consumed.outcome is Outcome.SKIPPED
        assert desk.error(auth_error_id) == before
        assert desk.ledger(auth_error_id, event_type).status is ProcessedStatus.DONE
        assert desk.rows("SELECT count(*) FROM auth_error_cluster") == [(0,)]

    def test_a_failure_moves_nothing_that_ended_meanwhile(self, desk: Desk) -> None:
        auth_error_id = desk.post()

        def decided_meanwhile(connection: Connection, *_: object) -> Handled:
            raise _Fault

        desk.handlers[EventType.RECORDED] = decided_meanwhile
        desk.rows("UPDATE auth_error SET status = 'IGNORED'")
        assert desk.consume(desk.message(auth_error_id)).outcome is Outcome.RETRY
        assert desk.status(auth_error_id) is AuthErrorStatus.IGNORED

    def test_an_analysis_that_comes_too_early_waits(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.publish()
        desk.deliver()
        desk.rows("SET session_replication_role = replica; UPDATE auth_error SET status = 'NEW'")
        message = desk.message(auth_error_id, EventType.ANALYSIS_REQUESTED)
        consumed = desk.consume(message)
        assert (consumed.outcome, consumed.return_in_seconds) == (Outcome.RETRY, 10)
        error = desk.error(auth_error_id)
        assert error.last_failure == "The event came before the one that it follows from."

    def test_recorded_after_its_analysis_is_skipped(self, desk: Desk) -> None:
        """Out of order, with the ledger's memory gone."""
        auth_error_id = desk.post()
        desk.settle()
        desk.rows("SET session_replication_role = replica; DELETE FROM processed_message")
        assert desk.consume(desk.message(auth_error_id)).outcome is Outcome.SKIPPED
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED


class TestRetries:
    """AUTH-8: the ladder, and the row decides."""

    def test_ten_seconds_a_minute_ten_minutes_and_dead(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.handlers[EventType.RECORDED] = _fails
        message, waits = desk.message(auth_error_id), []
        for attempt in range(1, 7):
            consumed = desk.consume(message)
            waits.append(consumed.return_in_seconds)
            assert desk.ledger(auth_error_id).attempts == attempt
            if consumed.return_in_seconds:
                row, error = desk.ledger(auth_error_id), desk.error(auth_error_id)
                assert row.status is ProcessedStatus.RETRY_WAIT
                assert row.next_retry_at == desk.now + timedelta(seconds=consumed.return_in_seconds)
                assert (error.status, error.next_retry_at) == (AuthErrorStatus.RETRY, row.next_retry_at)
                assert error.retry_count == attempt
                desk.pass_time(consumed.return_in_seconds)
        assert waits == [10, 60, 600, 600, 600, None]
        assert desk.ledger(auth_error_id).status is ProcessedStatus.DEAD
        assert reasons(desk.dead_letters()) == ["MAX_RETRIES_EXCEEDED"]
        # Nothing that a service said goes into a row or a letter.
        assert "words" not in json.dumps([one.attributes for one in desk.dead_letters()])
        assert desk.error(auth_error_id).last_failure == "tests.auth_errors.test_consumer._Fault"

    def test_a_message_before_its_time_waits_for_the_row(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.handlers[EventType.RECORDED] = _fails
        message = desk.message(auth_error_id)
        desk.consume(message)
        desk.handlers[EventType.RECORDED] = on_recorded
        desk.pass_time(4)
        early = desk.consume(message)
        assert (early.outcome, early.return_in_seconds) == (Outcome.EARLY, 6)
        assert desk.ledger(auth_error_id).attempts == 1
        desk.pass_time(6)
        assert desk.consume(message).outcome is Outcome.HANDLED
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED

    def test_an_analysis_that_failed_is_done_later(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.handlers[EventType.ANALYSIS_REQUESTED] = _fails
        desk.come_to_rest(rounds=1)
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED
        desk.come_to_rest(rounds=1)
        assert desk.status(auth_error_id) is AuthErrorStatus.RETRY
        desk.handlers[EventType.ANALYSIS_REQUESTED] = on_analysis_requested
        desk.come_to_rest(rounds=2)
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_what_no_retry_helps_is_dead_at_once(self, desk: Desk) -> None:
        auth_error_id = desk.post()

        def conflicts(*_: object) -> Handled:
            raise OutboxConflict

        desk.handlers[EventType.RECORDED] = conflicts
        consumed = desk.consume(desk.message(auth_error_id))
        assert (consumed.outcome, consumed.reason) == (Outcome.DEAD_LETTERED, "NOT_RETRYABLE")
        assert desk.ledger(auth_error_id).status is ProcessedStatus.DEAD

    def test_what_a_failed_handler_did_is_undone(self, desk: Desk) -> None:
        auth_error_id = desk.post()

        def half(connection: Connection, *rest: Any) -> Handled:
            on_recorded(connection, *rest)
            raise _Fault

        desk.handlers[EventType.RECORDED] = half
        desk.consume(desk.message(auth_error_id))
        assert desk.status(auth_error_id) is AuthErrorStatus.RETRY
        assert len(desk.events(auth_error_id)) == 1


class TestLeases:
    """AUTH-5: sixty seconds, counted when taken."""

    def test_a_message_that_another_has_comes_again_when_its_lease_is_over(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        message = desk.message(auth_error_id)
        self._take(desk, auth_error_id)
        found = desk.consume(message)
        assert (found.outcome, found.return_in_seconds) == (Outcome.EARLY, LEASE_SECONDS)
        desk.pass_time(LEASE_SECONDS)
        assert desk.consume(message).outcome is Outcome.HANDLED
        assert desk.ledger(auth_error_id).attempts == 2

    def test_a_consumer_that_dies_mid_lease_five_times_is_outlived(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        for _ in range(5):
            self._take(desk, auth_error_id)
            desk.pass_time(LEASE_SECONDS)
        assert desk.ledger(auth_error_id).attempts == 5
        assert desk.consume(desk.message(auth_error_id)).outcome is Outcome.HANDLED

    def test_one_that_kills_each_consumer_is_dead_and_says_so(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        message = desk.message(auth_error_id)
        for _ in range(6):
            self._take(desk, auth_error_id)
            assert desk.consume(message).outcome is Outcome.EARLY
            desk.pass_time(LEASE_SECONDS)
        assert desk.consume(message).outcome is Outcome.DEAD_LETTERED
        assert desk.ledger(auth_error_id).status is ProcessedStatus.DEAD
        (letter,) = desk.dead_letters()
        detail = letter.attributes["deadLetterDetail"]["StringValue"]
        assert detail == "each of its consumers did not come back"
        assert desk.consume(message).outcome is Outcome.SKIPPED
        assert len(desk.dead_letters()) == 1

    def test_one_that_slept_past_its_lease_leaves_nothing(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        message = desk.message(auth_error_id)

        def slow(connection: Connection, *rest: Any) -> Handled:
            handled = on_recorded(connection, *rest)
            desk.pass_time(LEASE_SECONDS)
            named = tables.Named(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)
            other = Database(desk.url)
            with other.connection() as elsewhere:
                owner = uuid4()
                assert tables.take_lease(
                    elsewhere, named, owner, lease_seconds=60, max_retries=5, now=desk.now
                )
            other.close()
            return handled

        desk.handlers[EventType.RECORDED] = slow
        assert desk.consume(message).outcome is Outcome.EARLY
        assert desk.status(auth_error_id) is AuthErrorStatus.NEW
        assert len(desk.events(auth_error_id)) == 1

    @staticmethod
    def _take(desk: Desk, auth_error_id: object) -> None:
        message = desk.message(auth_error_id)  # type: ignore[arg-type]
        named = tables.Named(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)  # type: ignore[arg-type]
        with desk.database.connection() as connection:
            tables.ensure_row_exists(connection, named, desk.now)
            taken = tables.take_lease(
                connection,
                named,
                uuid4(),
                lease_seconds=LEASE_SECONDS,
                max_retries=desk.policy.max_retries,
                now=desk.now,
            )
        assert taken is not None


def _message(desk: Desk, **headers: str | None) -> Message:
    auth_error_id = desk.post()
    good = desk.message(auth_error_id)
    changed = {**good.headers, **headers}
    return Message(good.body, {name: value for name, value in changed.items() if value is not None})


class TestMalformed:
    """AUTH-7: to the dead letters at once, with the reason; nothing waits and nothing is retried."""

    @pytest.mark.parametrize("name", ["outboxId", "eventType", "aggregateType"])
    @pytest.mark.parametrize("value", [None, ""])
    def test_a_header_that_is_missing(self, desk: Desk, name: str, value: str | None) -> None:
        self._is_dead(desk, _message(desk, **{name: value}), "MISSING_HEADER")

    @pytest.mark.parametrize(
        "headers",
        [
            {"outboxId": "0"},
            {"outboxId": "-1"},
            {"outboxId": "1e3"},
            {"outboxId": "１"},
            {"outboxId": "9" * 19},
            {"eventType": "auth.error.recorded.v2"},
            {"aggregateType": "run"},
        ],
    )
    def test_a_header_that_says_nothing(self, desk: Desk, headers: dict[str, str | None]) -> None:
        self._is_dead(desk, _message(desk, **headers), "BAD_HEADER")

    @pytest.mark.parametrize(
        "body", ["", "{", "nonsense", '{"authErrorId": NaN}', '{"a": "\\u0000"}', '{"a":1,"a":1}', "[" * 100]
    )
    def test_a_body_that_is_no_json(self, desk: Desk, body: str) -> None:
        good = _message(desk)
        self._is_dead(desk, Message(body, good.headers), "BAD_JSON")

    @pytest.mark.parametrize(
        "body", ["{}", "[]", '"x"', "null", '{"authErrorId": 7}', '{"authErrorId": "x"}']
    )
    def test_a_body_that_names_no_error(self, desk: Desk, body: str) -> None:
        good = _message(desk)
        self._is_dead(desk, Message(body, good.headers), "NO_AUTH_ERROR_ID")

    def test_an_error_that_is_not_there(self, desk: Desk) -> None:
        good = _message(desk)
        self._is_dead(desk, Message(f'{{"authErrorId": "{uuid4()}"}}', good.headers), "AUTH_ERROR_NOT_FOUND")

    @pytest.mark.parametrize(
        "headers", [{"outboxId": "999999"}, {"eventType": "auth.error.analysis.requested.v1"}]
    )
    def test_an_event_that_the_outbox_does_not_know_so(
        self, desk: Desk, headers: dict[str, str | None]
    ) -> None:
        self._is_dead(desk, _message(desk, **headers), "UNKNOWN_EVENT")

    def test_the_event_that_it_may_have_been_is_handled_all_the_same(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.publish()
        (sent,) = desk.sqs.of(EVENTS)
        sent.body = "{"  # what a queue must not do
        assert [one.outcome for one in desk.deliver()] == [Outcome.DEAD_LETTERED]
        desk.come_to_rest()
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_a_letter_that_is_not_taken_comes_again(self, desk: Desk) -> None:
        message = _message(desk, outboxId=None)
        desk.sqs.is_away = True
        with pytest.raises(QueueUnavailable):
            desk.consume(message)
        desk.sqs.is_away = False
        self._is_dead(desk, message, "MISSING_HEADER")

    @staticmethod
    def _is_dead(desk: Desk, message: Message, reason: str) -> None:
        consumed = desk.consume(message)
        assert (consumed.outcome, consumed.reason, consumed.return_in_seconds) == (
            Outcome.DEAD_LETTERED,
            reason,
            None,
        )
        (letter,) = desk.dead_letters()
        assert reasons([letter]) == [reason]
        assert letter.attributes["deadLetterDetail"]["StringValue"]
        assert letter.body == (message.body or "null")
        assert desk.rows("SELECT count(*) FROM processed_message") == [(0,)]


class TestDead:
    """What died is told until its letter stands, and an operator gives it all its tries again."""

    def test_a_letter_lost_between_row_and_queue_is_sent_by_the_next_delivery(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.handlers.clear()  # a KeyError: a bug of ours
        message = desk.message(auth_error_id)
        for wait in (10, 60, 600, 600, 600):
            desk.consume(message)
            desk.pass_time(wait)
        desk.sqs.is_away = True
        with pytest.raises(QueueUnavailable):
            desk.consume(message)
        desk.sqs.is_away = False
        assert desk.ledger(auth_error_id).status is ProcessedStatus.DEAD
        assert desk.sqs.of(DEAD_LETTERS) == []
        assert desk.consume(message).outcome is Outcome.DEAD_LETTERED
        assert desk.consume(message).outcome is Outcome.SKIPPED
        assert len(desk.dead_letters()) == 1

    def test_revived_it_is_sent_and_handled(self, desk: Desk) -> None:
        auth_error_id = desk.post()
        desk.handlers.clear()
        desk.come_to_rest(rounds=12, seconds=700)
        assert desk.ledger(auth_error_id).status is ProcessedStatus.DEAD
        desk.handlers.update(HANDLERS)
        desk.come_to_rest(rounds=3)
        assert desk.status(auth_error_id) is AuthErrorStatus.RETRY
        with desk.database.connection() as connection:
            (dead,) = tables.dead_ids(connection, 10)
            assert tables.revive(connection, dead, desk.now)
        desk.come_to_rest(rounds=3)
        assert desk.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED
        assert len(desk.dead_letters()) == 1
