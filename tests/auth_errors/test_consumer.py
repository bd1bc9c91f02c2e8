"""Messages are delivered at least once, in any order; effects happen once (AUTH-3, AUTH-5, AUTH-7)."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from dpp.auth_errors.errors import OutboxConflict
from dpp.auth_errors.machine import AuthErrorStatus, ProcessedStatus
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.consume import LEASE_SECONDS, ConsumeOutcome, consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.outbox.handlers import HANDLERS, HandlerResult, on_analysis_requested, on_recorded
from dpp.auth_errors.outbox.message import EventMessage
from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import QueueUnavailable
from tests.auth_errors.environment import DEAD_LETTERS, EVENTS, WAKE, Environment, reasons
from tests.support.threads import at_once


class _HandlerError(Exception):
    """An unexpected error of a handler."""


def _fails(*_: object) -> HandlerResult:
    raise _HandlerError("with the words of a service")


class TestOnce:
    """AUTH-5: one processed message per event, with one effect."""

    def test_both_events_lead_from_new_to_analysed(self, env: Environment) -> None:
        """AUTH-9: both events, in their order."""
        auth_error_id = env.post()
        env.publish()
        (first,) = env.deliver()
        assert (first.outcome, first.event_type) == (ConsumeOutcome.HANDLED, EventType.RECORDED)
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED
        assert len(env.sqs.of(WAKE)) == 2  # the post, and the second event
        env.publish()
        (second,) = env.deliver()
        assert (second.outcome, second.event_type) == (ConsumeOutcome.HANDLED, EventType.ANALYSIS_REQUESTED)
        whole = env.details(auth_error_id)
        assert whole.error.status is AuthErrorStatus.ANALYSIS_COMPLETED
        assert [one.error_count for one in whole.clusters] == [1]
        assert [one.to_status for one in whole.transitions] == ["NEW", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED"]
        assert [(one.processed_status, one.attempts) for one in whole.events] == [("DONE", 1), ("DONE", 1)]

    def test_repeated_message_changes_nothing(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.run_until_idle()
        before = env.details(auth_error_id)
        for event_type in EventType:
            for _ in range(3):
                assert env.consume(env.message(auth_error_id, event_type)).outcome is ConsumeOutcome.SKIPPED
        assert env.details(auth_error_id) == before

    def test_concurrent_consumers_handle_a_message_once(self, env: Environment) -> None:
        auth_error_id = env.post()
        message, found = env.message(auth_error_id), list[ConsumeOutcome]()

        def work(database: Database) -> None:
            found.append(consume(message, env.consume_effects(database), env.now).outcome)

        at_once(env.url, *[work] * 4)
        assert found.count(ConsumeOutcome.HANDLED) == 1
        assert set(found) <= {ConsumeOutcome.HANDLED, ConsumeOutcome.SKIPPED, ConsumeOutcome.EARLY}
        assert env.rows("SELECT count(*) FROM outbox_message") == [(2,)]
        assert env.processed(auth_error_id).attempts == 1

    def test_processed_message_needs_explicit_values(self, env: Environment) -> None:
        """004 §3.3: the table has no defaults, so an incomplete row is rejected."""
        env.post()
        with pytest.raises(psycopg.errors.NotNullViolation):
            env.rows("INSERT INTO processed_message (outbox_id) SELECT outbox_id FROM outbox_message")
        with pytest.raises(psycopg.errors.CheckViolation):
            env.rows(
                "INSERT INTO processed_message SELECT outbox_id, 'DONE', 1, NULL, NULL, NULL, NULL, NULL, now(), now()"
                " FROM outbox_message"
            )
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            env.rows(
                "INSERT INTO processed_message VALUES (99, 'PENDING', 0, NULL, NULL, NULL, NULL, NULL, now(), now())"
            )


class TestTerminal:
    """AUTH-3: every handler skips a terminal error, at any time."""

    @pytest.mark.parametrize("event_type", list(EventType))
    @pytest.mark.parametrize("status", ["PROCESSED", "FAILED", "RESOLVED", "IGNORED"])
    def test_terminal_error_is_skipped(self, env: Environment, status: str, event_type: EventType) -> None:
        auth_error_id = env.post()
        if event_type is EventType.ANALYSIS_REQUESTED:
            env.publish()
            env.deliver()
        analyzed = "now()" if status == "PROCESSED" else "NULL"
        env.rows(
            "SET session_replication_role = replica;"
            f"UPDATE auth_error SET status = '{status}', analyzed_at = {analyzed}"
        )
        before = env.error(auth_error_id)
        consumed = env.consume(env.message(auth_error_id, event_type))
        assert consumed.outcome is ConsumeOutcome.SKIPPED
        assert env.error(auth_error_id) == before
        assert env.processed(auth_error_id, event_type).status is ProcessedStatus.DONE
        assert env.rows("SELECT count(*) FROM auth_error_cluster") == [(0,)]

    def test_failure_does_not_change_a_terminal_error(self, env: Environment) -> None:
        auth_error_id = env.post()

        def decided_meanwhile(connection: Connection, *_: object) -> HandlerResult:
            raise _HandlerError

        env.handlers[EventType.RECORDED] = decided_meanwhile
        env.rows("UPDATE auth_error SET status = 'IGNORED'")
        assert env.consume(env.message(auth_error_id)).outcome is ConsumeOutcome.RETRY
        assert env.status(auth_error_id) is AuthErrorStatus.IGNORED

    def test_early_analysis_event_waits(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.publish()
        env.deliver()
        env.rows("SET session_replication_role = replica; UPDATE auth_error SET status = 'NEW'")
        message = env.message(auth_error_id, EventType.ANALYSIS_REQUESTED)
        consumed = env.consume(message)
        assert (consumed.outcome, consumed.return_in_seconds) == (ConsumeOutcome.RETRY, 10)
        error = env.error(auth_error_id)
        assert error.last_failure == "The event arrived before the event that precedes it."

    def test_recorded_event_after_the_analysis_is_skipped(self, env: Environment) -> None:
        """Out of order, and without a processed message."""
        auth_error_id = env.post()
        env.run_until_idle()
        env.rows("SET session_replication_role = replica; DELETE FROM processed_message")
        assert env.consume(env.message(auth_error_id)).outcome is ConsumeOutcome.SKIPPED
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED


class TestRetries:
    """AUTH-8: the delays of retries; the row decides the time."""

    def test_delays_are_10s_1min_10min_then_dead(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.handlers[EventType.RECORDED] = _fails
        message, waits = env.message(auth_error_id), []
        for attempt in range(1, 7):
            consumed = env.consume(message)
            waits.append(consumed.return_in_seconds)
            assert env.processed(auth_error_id).attempts == attempt
            if consumed.return_in_seconds:
                row, error = env.processed(auth_error_id), env.error(auth_error_id)
                assert row.status is ProcessedStatus.RETRY_WAIT
                assert row.next_retry_at == env.now + timedelta(seconds=consumed.return_in_seconds)
                assert (error.status, error.next_retry_at) == (AuthErrorStatus.RETRY, row.next_retry_at)
                assert error.retry_count == attempt
                env.pass_time(consumed.return_in_seconds)
        assert waits == [10, 60, 600, 600, 600, None]
        assert env.processed(auth_error_id).status is ProcessedStatus.DEAD
        assert reasons(env.dead_letters()) == ["MAX_RETRIES_EXCEEDED"]
        # No text of a service goes into a row or a dead letter.
        assert "words" not in json.dumps([one.attributes for one in env.dead_letters()])
        assert env.error(auth_error_id).last_failure == "tests.auth_errors.test_consumer._HandlerError"

    def test_early_message_waits_until_the_row_is_due(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.handlers[EventType.RECORDED] = _fails
        message = env.message(auth_error_id)
        env.consume(message)
        env.handlers[EventType.RECORDED] = on_recorded
        env.pass_time(4)
        early = env.consume(message)
        assert (early.outcome, early.return_in_seconds) == (ConsumeOutcome.EARLY, 6)
        assert env.processed(auth_error_id).attempts == 1
        env.pass_time(6)
        assert env.consume(message).outcome is ConsumeOutcome.HANDLED
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED

    def test_failed_analysis_is_retried(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.handlers[EventType.ANALYSIS_REQUESTED] = _fails
        env.recover(rounds=1)
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_REQUESTED
        env.recover(rounds=1)
        assert env.status(auth_error_id) is AuthErrorStatus.RETRY
        env.handlers[EventType.ANALYSIS_REQUESTED] = on_analysis_requested
        env.recover(rounds=2)
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_permanent_failure_is_dead_at_once(self, env: Environment) -> None:
        auth_error_id = env.post()

        def conflicts(*_: object) -> HandlerResult:
            raise OutboxConflict

        env.handlers[EventType.RECORDED] = conflicts
        consumed = env.consume(env.message(auth_error_id))
        assert (consumed.outcome, consumed.reason) == (ConsumeOutcome.DEAD_LETTERED, "NOT_RETRYABLE")
        assert env.processed(auth_error_id).status is ProcessedStatus.DEAD

    def test_failed_handler_is_rolled_back(self, env: Environment) -> None:
        auth_error_id = env.post()

        def half(connection: Connection, *rest: Any) -> HandlerResult:
            on_recorded(connection, *rest)
            raise _HandlerError

        env.handlers[EventType.RECORDED] = half
        env.consume(env.message(auth_error_id))
        assert env.status(auth_error_id) is AuthErrorStatus.RETRY
        assert len(env.events(auth_error_id)) == 1


class TestLeases:
    """AUTH-5: leases of 60 s, counted when taken."""

    def test_leased_message_is_delivered_again_after_the_lease(self, env: Environment) -> None:
        auth_error_id = env.post()
        message = env.message(auth_error_id)
        self._take(env, auth_error_id)
        found = env.consume(message)
        assert (found.outcome, found.return_in_seconds) == (ConsumeOutcome.EARLY, LEASE_SECONDS)
        env.pass_time(LEASE_SECONDS)
        assert env.consume(message).outcome is ConsumeOutcome.HANDLED
        assert env.processed(auth_error_id).attempts == 2

    def test_message_survives_five_crashed_consumers(self, env: Environment) -> None:
        auth_error_id = env.post()
        for _ in range(5):
            self._take(env, auth_error_id)
            env.pass_time(LEASE_SECONDS)
        assert env.processed(auth_error_id).attempts == 5
        assert env.consume(env.message(auth_error_id)).outcome is ConsumeOutcome.HANDLED

    def test_message_that_crashes_every_consumer_is_dead(self, env: Environment) -> None:
        auth_error_id = env.post()
        message = env.message(auth_error_id)
        for _ in range(6):
            self._take(env, auth_error_id)
            assert env.consume(message).outcome is ConsumeOutcome.EARLY
            env.pass_time(LEASE_SECONDS)
        assert env.consume(message).outcome is ConsumeOutcome.DEAD_LETTERED
        assert env.processed(auth_error_id).status is ProcessedStatus.DEAD
        (dead_letter,) = env.dead_letters()
        detail = dead_letter.attributes["deadLetterDetail"]["StringValue"]
        assert detail == "the lease of every attempt expired"
        assert env.consume(message).outcome is ConsumeOutcome.SKIPPED
        assert len(env.dead_letters()) == 1

    def test_consumer_with_an_expired_lease_changes_nothing(self, env: Environment) -> None:
        auth_error_id = env.post()
        message = env.message(auth_error_id)

        def slow(connection: Connection, *rest: Any) -> HandlerResult:
            handled = on_recorded(connection, *rest)
            env.pass_time(LEASE_SECONDS)
            named = tables.EventRef(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)
            other = Database(env.url)
            with other.connection() as elsewhere:
                owner = uuid4()
                assert tables.take_lease(elsewhere, named, owner, lease_seconds=60, max_retries=5, now=env.now)
            other.close()
            return handled

        env.handlers[EventType.RECORDED] = slow
        assert env.consume(message).outcome is ConsumeOutcome.EARLY
        assert env.status(auth_error_id) is AuthErrorStatus.NEW
        assert len(env.events(auth_error_id)) == 1

    @staticmethod
    def _take(env: Environment, auth_error_id: object) -> None:
        message = env.message(auth_error_id)  # type: ignore[arg-type]
        named = tables.EventRef(int(message.headers["outboxId"]), EventType.RECORDED, auth_error_id)  # type: ignore[arg-type]
        with env.database.connection() as connection:
            tables.ensure_row_exists(connection, named, env.now)
            taken = tables.take_lease(
                connection, named, uuid4(), lease_seconds=LEASE_SECONDS, max_retries=env.policy.max_retries, now=env.now
            )
        assert taken is not None


def _message(env: Environment, **headers: str | None) -> EventMessage:
    auth_error_id = env.post()
    good = env.message(auth_error_id)
    changed = {**good.headers, **headers}
    return EventMessage(good.body, {name: value for name, value in changed.items() if value is not None})


class TestMalformed:
    """AUTH-7: malformed messages go to the DLQ at once with a reason, without a retry."""

    @pytest.mark.parametrize("name", ["outboxId", "eventType", "aggregateType"])
    @pytest.mark.parametrize("value", [None, ""])
    def test_missing_header(self, env: Environment, name: str, value: str | None) -> None:
        self._is_dead(env, _message(env, **{name: value}), "MISSING_HEADER")

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
    def test_invalid_header(self, env: Environment, headers: dict[str, str | None]) -> None:
        self._is_dead(env, _message(env, **headers), "BAD_HEADER")

    @pytest.mark.parametrize(
        "body", ["", "{", "nonsense", '{"authErrorId": NaN}', '{"a": "\\u0000"}', '{"a":1,"a":1}', "[" * 100]
    )
    def test_invalid_json(self, env: Environment, body: str) -> None:
        good = _message(env)
        self._is_dead(env, EventMessage(body, good.headers), "BAD_JSON")

    @pytest.mark.parametrize("body", ["{}", "[]", '"x"', "null", '{"authErrorId": 7}', '{"authErrorId": "x"}'])
    def test_body_without_an_error_id(self, env: Environment, body: str) -> None:
        good = _message(env)
        self._is_dead(env, EventMessage(body, good.headers), "NO_AUTH_ERROR_ID")

    def test_unknown_error(self, env: Environment) -> None:
        good = _message(env)
        self._is_dead(env, EventMessage(f'{{"authErrorId": "{uuid4()}"}}', good.headers), "AUTH_ERROR_NOT_FOUND")

    @pytest.mark.parametrize("headers", [{"outboxId": "999999"}, {"eventType": "auth.error.analysis.requested.v1"}])
    def test_event_that_differs_from_the_outbox(self, env: Environment, headers: dict[str, str | None]) -> None:
        self._is_dead(env, _message(env, **headers), "UNKNOWN_EVENT")

    def test_event_of_a_malformed_message_is_sent_again(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.publish()
        (sent,) = env.sqs.of(EVENTS)
        sent.body = "{"  # corrupted by the queue
        assert [one.outcome for one in env.deliver()] == [ConsumeOutcome.DEAD_LETTERED]
        env.recover()
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED

    def test_message_is_delivered_again_if_the_dlq_is_unavailable(self, env: Environment) -> None:
        message = _message(env, outboxId=None)
        env.sqs.is_away = True
        with pytest.raises(QueueUnavailable):
            env.consume(message)
        env.sqs.is_away = False
        self._is_dead(env, message, "MISSING_HEADER")

    @staticmethod
    def _is_dead(env: Environment, message: EventMessage, reason: str) -> None:
        consumed = env.consume(message)
        assert (consumed.outcome, consumed.reason, consumed.return_in_seconds) == (
            ConsumeOutcome.DEAD_LETTERED,
            reason,
            None,
        )
        (dead_letter,) = env.dead_letters()
        assert reasons([dead_letter]) == [reason]
        assert dead_letter.attributes["deadLetterDetail"]["StringValue"]
        assert dead_letter.body == (message.body or "null")
        assert env.rows("SELECT count(*) FROM processed_message") == [(0,)]


class TestDead:
    """A dead event's copy is sent until it is marked; an operator revives the event."""

    def test_unsent_dead_letter_is_sent_by_the_next_delivery(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.handlers.clear()  # a KeyError: a bug
        message = env.message(auth_error_id)
        for wait in (10, 60, 600, 600, 600):
            env.consume(message)
            env.pass_time(wait)
        env.sqs.is_away = True
        with pytest.raises(QueueUnavailable):
            env.consume(message)
        env.sqs.is_away = False
        assert env.processed(auth_error_id).status is ProcessedStatus.DEAD
        assert env.sqs.of(DEAD_LETTERS) == []
        assert env.consume(message).outcome is ConsumeOutcome.DEAD_LETTERED
        assert env.consume(message).outcome is ConsumeOutcome.SKIPPED
        assert len(env.dead_letters()) == 1

    def test_revived_event_is_sent_and_handled(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.handlers.clear()
        env.recover(rounds=12, seconds=700)
        assert env.processed(auth_error_id).status is ProcessedStatus.DEAD
        env.handlers.update(HANDLERS)
        env.recover(rounds=3)
        assert env.status(auth_error_id) is AuthErrorStatus.RETRY
        (dead,) = env.using(tables.dead_ids, 10)
        assert env.using(tables.revive, dead, env.now)
        env.recover(rounds=3)
        assert env.status(auth_error_id) is AuthErrorStatus.ANALYSIS_COMPLETED
        assert len(env.dead_letters()) == 1
