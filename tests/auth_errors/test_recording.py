"""Errors are recorded once, with their event (AUTH-1, AUTH-2, AUTH-3, AUTH-6)."""

from datetime import timedelta, timezone
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from dpp.auth_errors import store
from dpp.auth_errors.api.record import Recorded, record
from dpp.auth_errors.errors import AuthErrorConflict, OutboxConflict
from dpp.auth_errors.machine import (
    ERROR_MACHINE,
    OUTBOX_MACHINE,
    PROCESSED_MACHINE,
    TERMINAL,
    AuthErrorStatus,
    OutboxStatus,
    ProcessedStatus,
)
from dpp.auth_errors.outbox import events, tables
from dpp.auth_errors.outbox.publish import Waker
from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Database
from tests.auth_errors.environment import AT_NOON, TENANT, WAKE, Environment
from tests.support.threads import at_once


class TestOnce:
    """AUTH-1: one error per reporter and requestId."""

    def test_new_error_has_its_event(self, env: Environment) -> None:
        recorded = env.record()
        assert recorded.created
        whole = env.details(recorded.error.auth_error_id)
        assert (whole.error.status, whole.error.retry_count) == (AuthErrorStatus.NEW, 0)
        (event,) = whole.events
        assert (event.event_type, event.status) == (events.EventType.RECORDED, OutboxStatus.PENDING)
        assert [(one.from_status, one.to_status, one.actor) for one in whole.transitions] == [
            (None, AuthErrorStatus.NEW, TENANT)
        ]
        assert len(env.sqs.of(WAKE)) == 1

    def test_repeated_report_returns_the_first_without_a_wake(self, env: Environment) -> None:
        first = env.record(request_id="r1")
        again = env.record(request_id="r1")
        assert not again.created
        assert again.error == first.error
        assert env.rows("SELECT count(*) FROM outbox_message") == [(1,)]
        assert len(env.sqs.of(WAKE)) == 1

    def test_same_instant_with_another_offset_is_the_same_report(self, env: Environment) -> None:
        first = env.record(request_id="r1")
        seoul = AT_NOON.astimezone(timezone(timedelta(hours=9)))
        assert env.record(request_id="r1", occurred_at=seoul).error == first.error

    @pytest.mark.parametrize(
        "changes",
        [
            {"stacktrace": "at elsewhere(E.java:1)"},
            {"http_status": 403},
            {"occurred_at": AT_NOON + timedelta(microseconds=1)},
            {"exception_class": "com.example.Other"},
            {"exception_message": "another"},
            {"service": "login"},
        ],
    )
    def test_different_payload_is_rejected_and_changes_nothing(self, env: Environment, changes: dict[str, Any]) -> None:
        first = env.record(request_id="r1")
        with pytest.raises(AuthErrorConflict):
            env.record(request_id="r1", **changes)
        assert env.error(first.error.auth_error_id) == first.error
        assert env.rows("SELECT count(*) FROM outbox_message") == [(1,)]

    def test_request_ids_are_per_reporter(self, env: Environment) -> None:
        env.using(create_tenant, "t_other", "Another", 60)
        mine, theirs = env.record(request_id="r1"), env.record("t_other", request_id="r1", http_status=403)
        assert theirs.created
        assert theirs.error.auth_error_id != mine.error.auth_error_id

    def test_concurrent_reports_are_recorded_once(self, env: Environment) -> None:
        report, found = env.report(), list[Recorded]()

        def post(database: Database) -> None:
            found.append(record(report, TENANT, database, Waker(None)))

        at_once(env.url, *[post] * 4)
        assert sorted(one.created for one in found) == [False, False, False, True]
        assert len({one.error.auth_error_id for one in found}) == 1
        assert env.rows("SELECT count(*) FROM outbox_message") == [(1,)]

    def test_report_succeeds_if_the_wake_fails(self, env: Environment) -> None:
        env.sqs.is_away = True
        recorded = env.record()
        env.sqs.is_away = False
        assert recorded.created
        assert env.publish().published == 1


class TestTransaction:
    """AUTH-2, AUTH-6: an error and its event are one transaction; an event never changes."""

    def test_rejected_event_rolls_its_error_back(self, env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_: object) -> bool:
            raise OutboxConflict

        monkeypatch.setattr(tables, "enqueue", refused)
        with pytest.raises(OutboxConflict):
            env.record()
        assert env.rows("SELECT count(*) FROM auth_error") == [(0,)]

    def test_event_keys_use_the_error_id(self, env: Environment) -> None:
        auth_error_id = env.post(request_id="r1")
        env.run_until_idle()
        assert env.rows("SELECT idempotency_key FROM outbox_message ORDER BY outbox_id") == [
            (f"auth_error:recorded:{auth_error_id}",),
            (f"auth_error:analysis_requested:{auth_error_id}",),
        ]

    def test_event_is_enqueued_once_and_another_payload_is_rejected(self, env: Environment) -> None:
        auth_error_id = env.post()
        event = events.recorded(auth_error_id, "r1", AT_NOON)
        env.rows("SET session_replication_role = replica; DELETE FROM outbox_message")
        with env.database.connection() as connection:
            assert tables.enqueue(connection, event)
            assert not tables.enqueue(connection, event)
            with pytest.raises(OutboxConflict):
                tables.enqueue(connection, events.recorded(auth_error_id, "r2", AT_NOON))
        assert env.rows("SELECT payload ->> 'requestId' FROM outbox_message") == [("r1",)]

    @pytest.mark.parametrize(
        "change",
        [
            "idempotency_key = 'auth_error:recorded:r1'",
            "idempotency_key = 'auth_error:analysis_requested:' || aggregate_id",
            'payload = payload || \'{"requestId": "x"}\'',
            "payload = payload - 'authErrorId'",
            "event_type = 'auth.error.analysis.requested.v1'",
            "status = 'PUBLISHED', published_at = now(), last_sent_at = now(), next_retry_at = NULL",
            "next_retry_at = NULL",
        ],
    )
    def test_database_rejects_changes_of_an_event(self, env: Environment, change: str) -> None:
        env.post()
        with pytest.raises(psycopg.errors.CheckViolation):
            env.rows(f"UPDATE outbox_message SET {change}")

    def test_database_rejects_foreign_idempotency_keys(self, env: Environment) -> None:
        auth_error_id = env.post()
        with pytest.raises(psycopg.errors.CheckViolation):
            env.rows(
                "INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload,"
                " payload_hash, status, retry_count, next_retry_at, created_at) SELECT aggregate_type, aggregate_id,"
                " event_type, 'auth_error:recorded:r1', payload, payload_hash, status, 0, now(), now()"
                " FROM outbox_message WHERE aggregate_id = %(id)s",
                {"id": auth_error_id},
            )


_SHAPES: dict[AuthErrorStatus, str] = {
    AuthErrorStatus.RETRY: "next_retry_at = now(), analyzed_at = NULL",
    AuthErrorStatus.ANALYSIS_COMPLETED: "next_retry_at = NULL, analyzed_at = now()",
    AuthErrorStatus.PROCESSED: "next_retry_at = NULL, analyzed_at = now()",
}


class TestMachine:
    """AUTH-3: eight states and the machine's transitions, for any writer."""

    def test_eight_states_four_of_them_terminal(self) -> None:
        assert len(AuthErrorStatus) == 8
        assert {"PROCESSED", "FAILED", "RESOLVED", "IGNORED"} == TERMINAL

    @pytest.mark.parametrize("target", list(AuthErrorStatus))
    @pytest.mark.parametrize("source", list(AuthErrorStatus))
    def test_database_allows_exactly_the_transitions_of_the_machine(
        self, shared_env: Environment, source: AuthErrorStatus, target: AuthErrorStatus
    ) -> None:
        auth_error_id = shared_env.post()
        shape = _SHAPES.get(source, "next_retry_at = NULL, analyzed_at = NULL")
        shared_env.rows(
            "SET session_replication_role = replica;"
            f"UPDATE auth_error SET status = '{source}', {shape} WHERE auth_error_id = '{auth_error_id}'"
        )
        shape = _SHAPES.get(target, "next_retry_at = NULL, analyzed_at = NULL")
        move = f"UPDATE auth_error SET status = '{target}', {shape} WHERE auth_error_id = '{auth_error_id}'"
        if ERROR_MACHINE.allows(source, target):
            shared_env.rows(move)
            assert shared_env.status(auth_error_id) is target
        else:
            with pytest.raises(psycopg.errors.CheckViolation) as refused:
                shared_env.rows(move)
            assert refused.value.diag.constraint_name == "auth_error_transition"

    @pytest.mark.parametrize(
        ("table", "states", "machine"),
        [("outbox_message", OutboxStatus, OUTBOX_MACHINE), ("processed_message", ProcessedStatus, PROCESSED_MACHINE)],
    )
    def test_outbox_and_processed_messages_too(self, env: Environment, table: str, states: Any, machine: Any) -> None:
        """AUTH-4, AUTH-5: all pairs, without the constraints of a row's shape."""
        env.post()
        env.run_until_idle()
        env.rows(f"ALTER TABLE {table} DROP CONSTRAINT {table}_shape")
        for source in states:
            for target in states:
                env.rows(f"SET session_replication_role = replica; UPDATE {table} SET status = '{source}'")
                refused = None
                try:
                    env.rows(f"UPDATE {table} SET status = '{target}'")
                except psycopg.errors.CheckViolation as error:
                    refused = error.diag.constraint_name
                expected = None if machine.allows(source, target) else f"{table}_transition"
                assert refused == expected, f"{source} to {target}"

    @pytest.mark.parametrize(
        "change",
        [
            "stacktrace = 'x'",
            "dedup_key = 'x'",
            "reported_by = 't_x'",
            "occurred_at = now()",
            "exception_message = 'x'",
            "created_at = created_at - interval '1 s'",
            "payload_hash = repeat('a', 64)",
        ],
    )
    def test_reported_values_never_change(self, env: Environment, change: str) -> None:
        env.post()
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            env.rows(f"UPDATE auth_error SET {change}")
        assert refused.value.diag.constraint_name == "auth_error_is_final"

    @pytest.mark.parametrize("table", ["auth_error_transition", "auth_error_decision"])
    def test_history_is_append_only(self, env: Environment, table: str) -> None:
        env.post()
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table}"):
            with pytest.raises(psycopg.errors.RestrictViolation):
                env.rows(statement)

    def test_lost_compare_and_swap_returns_none(self, env: Environment) -> None:
        auth_error_id = env.post()
        assert env.using(store.complete_analysis, auth_error_id, "x") is None
        assert env.using(store.request_analysis, uuid4(), "x") is None
