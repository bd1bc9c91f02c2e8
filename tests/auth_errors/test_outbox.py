"""From the outbox to the queue: no event is lost or skipped, and each has one owner (AUTH-4, AUTH-8)."""

from datetime import timedelta
from uuid import uuid4

import psycopg

from dpp.auth_errors.machine import OutboxStatus
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import RESEND_SECONDS, SILENT_SECONDS, PublishReport, publish
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.platform.db.postgres import Database
from tests.auth_errors.environment import EVENTS, Environment
from tests.support.threads import at_once


def _statuses(env: Environment) -> list[str]:
    return [row[0] for row in env.rows("SELECT status FROM outbox_message ORDER BY outbox_id")]


class TestPublishing:
    """AUTH-4: PENDING, PROCESSING with an owner, PUBLISHED."""

    def test_event_is_sent_with_headers_and_payload(self, env: Environment) -> None:
        auth_error_id = env.post(request_id="r1")
        report = env.publish()
        assert (report.published, report.dead, report.lost) == (1, 0, 0)
        (sent,) = env.sqs.of(EVENTS)
        headers = {name: value["StringValue"] for name, value in sent.attributes.items()}
        (event,) = env.events(auth_error_id)
        assert headers == {
            "outboxId": str(event.outbox_id),
            "eventType": "auth.error.recorded.v1",
            "aggregateType": "auth_error",
        }
        assert f'"authErrorId": "{auth_error_id}"' in sent.body
        assert '"requestId": "r1"' in sent.body
        assert event.status is OutboxStatus.PUBLISHED

    def test_second_tick_sends_nothing_twice(self, env: Environment) -> None:
        for _ in range(25):
            env.post()
        assert [env.publish().published, env.publish().published] == [25, 0]
        assert len(env.sqs.of(EVENTS)) == 25

    def test_concurrent_publishers_share_the_work(self, env: Environment) -> None:
        for _ in range(300):
            env.post()
        reports = list[PublishReport]()

        def work(database: Database) -> None:
            reports.append(publish(env.publish_effects(database), env.now))

        at_once(env.url, work, work)
        assert sum(report.published for report in reports) == 300
        assert sum(report.lost for report in reports) == 0
        assert len({sent.attributes["outboxId"]["StringValue"] for sent in env.sqs.of(EVENTS)}) == 300
        assert len(env.sqs.of(EVENTS)) == 300

    def test_late_commit_is_not_skipped(self, env: Environment) -> None:
        """The lower id is committed after the higher one was published."""
        late = env.post()
        env.rows("SET session_replication_role = replica; DELETE FROM outbox_message")
        with psycopg.connect(env.url) as slow:
            slow.execute(
                "INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload,"
                " payload_hash, status, retry_count, next_retry_at, created_at) VALUES ('auth_error', %(id)s,"
                " 'auth.error.recorded.v1', 'auth_error:recorded:' || %(id)s::text,"
                " jsonb_build_object('authErrorId', %(id)s::text), repeat('a', 64), 'PENDING', 0, %(now)s, %(now)s)",
                {"id": late, "now": env.now},
            )
            early = env.post()
            assert env.publish().published == 1
            slow.commit()
        assert env.publish().published == 1
        assert env.events(late)[0].outbox_id < env.events(early)[0].outbox_id

    def test_events_of_an_error_keep_their_order(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.run_until_idle()
        # As if both still had to go, the first of them later.
        env.rows(
            "SET session_replication_role = replica;"
            "UPDATE outbox_message SET status = 'PENDING', published_at = NULL, next_retry_at = now();"
            "UPDATE outbox_message SET next_retry_at = now() + interval '1 hour'"
            " WHERE event_type = 'auth.error.recorded.v1'"
        )
        assert env.publish().published == 0
        env.pass_time(3_700)
        (first,) = env.using(tables.claim, uuid4(), 10, env.now)
        assert first.outbox_id == env.events(auth_error_id)[0].outbox_id


class TestFailures:
    """AUTH-8: the policy decides, and next_retry_at in the database is the time."""

    def test_rejected_event_waits_without_affecting_others(self, env: Environment) -> None:
        poison, well = env.post(request_id="poison"), env.post(request_id="well")
        env.sqs.refused = {"poison": "InvalidMessageContents"}
        report = env.publish()
        assert (report.published, report.put_back) == (1, 1)
        (event,) = env.events(poison)
        assert (event.status, event.retry_count) == (OutboxStatus.PENDING, 1)
        assert event.last_error == "InvalidMessageContents"
        assert event.next_retry_at == env.now + timedelta(seconds=10)
        assert env.events(well)[0].status is OutboxStatus.PUBLISHED

    def test_event_is_dead_after_the_last_retry_and_can_be_revived(self, env: Environment) -> None:
        auth_error_id = env.post(request_id="poison")
        env.sqs.refused = {"poison": "InvalidMessageContents"}
        counts = []
        for delay in (0, 10, 60, 600, 600, 600):
            env.pass_time(delay - 1)
            assert env.publish().put_back == 0
            env.pass_time(1)
            report = env.publish()
            counts.append((report.put_back, report.dead))
        assert counts == [(1, 0)] * 5 + [(0, 1)]
        (event,) = env.events(auth_error_id)
        assert (event.status, event.retry_count) == (OutboxStatus.DEAD, 6)
        env.pass_time(86_400)
        assert env.publish().published == 0
        env.sqs.refused = {}
        assert env.using(tables.dead_ids, 10) == [event.outbox_id]
        assert env.using(tables.revive, event.outbox_id, env.now)
        assert not env.using(tables.revive, event.outbox_id, env.now)
        assert env.publish().published == 1

    def test_outage_makes_no_event_dead(self, env: Environment) -> None:
        for _ in range(12):
            env.post()
        env.sqs.is_away = True
        for _ in range(20):
            report = env.publish()
            assert report.dead == 0
            assert report.stopped_early
            env.pass_time(600)
        assert set(_statuses(env)) == {"PENDING"}
        env.sqs.is_away = False
        assert env.publish().published == 12

    def test_outage_during_a_batch_puts_back_unsent_events(self, env: Environment) -> None:
        for _ in range(15):
            env.post()
        real, calls = env.sqs.send_message_batch, list[int]()

        def once(**kwargs: object) -> dict[str, object]:
            calls.append(1)
            env.sqs.is_away = len(calls) > 1
            return real(**kwargs)  # type: ignore[arg-type]

        env.sqs.send_message_batch = once  # type: ignore[method-assign]
        report = env.publish()
        assert (report.published, report.put_back) == (10, 5)
        assert sorted(_statuses(env)) == ["PENDING"] * 5 + ["PUBLISHED"] * 10


class TestOwners:
    """AUTH-4: only the owner finalizes; takeover by elapsed time only, on Postgres's clock."""

    def test_crash_between_send_and_finalize_sends_again(self, env: Environment) -> None:
        auth_error_id = env.post()
        (event,) = env.using(tables.claim, uuid4(), 10, env.now)
        env.pass_time(SILENT_SECONDS)
        assert env.publish().taken_over == 0
        env.pass_time(1)
        report = env.publish()
        assert (report.taken_over, report.published) == (1, 1)
        (entry,) = env.events(auth_error_id)
        assert (entry.outbox_id, entry.status) == (event.outbox_id, OutboxStatus.PUBLISHED)

    def test_owner_finalizes_nothing_after_a_takeover(self, env: Environment) -> None:
        auth_error_id = env.post()
        sleeper, other = uuid4(), uuid4()
        with env.database.connection() as connection:
            (event,) = tables.claim(connection, sleeper, 10, env.now)
            env.pass_time(SILENT_SECONDS + 1)
            assert len(tables.take_over(connection, other, 10, SILENT_SECONDS, env.now)) == 1
            assert tables.mark_published(connection, sleeper, [event.outbox_id], env.now) == 0
            put_back = tables.put_back(
                connection, sleeper, event.outbox_id, retry_count=9, next_retry_at=None, error="mine"
            )
            assert not put_back
            assert env.events(auth_error_id)[0].status is OutboxStatus.PROCESSING
            assert tables.mark_published(connection, other, [event.outbox_id], env.now) == 1

    def test_event_that_crashes_every_publisher_is_dead(self, env: Environment) -> None:
        auth_error_id = env.post()
        for _ in range(RetryPolicy().max_retries + 1):
            with env.database.connection() as connection:
                claimed = tables.claim(connection, uuid4(), 10, env.now)
                claimed += tables.take_over(connection, uuid4(), 10, SILENT_SECONDS, env.now)
                assert len(claimed) == 1
            env.pass_time(SILENT_SECONDS + 1)
        report = env.publish()
        assert (report.taken_over, report.dead, report.published) == (1, 1, 0)
        (event,) = env.events(auth_error_id)
        assert event.status is OutboxStatus.DEAD
        assert event.last_error == "every publisher that claimed it crashed or timed out"

    def test_tick_stops_at_its_time_limit(self, env: Environment) -> None:
        for _ in range(150):
            env.post()
        clock = iter(range(0, 10_000, 15))
        report = publish(env.publish_effects(), env.now, elapsed=lambda: float(next(clock)))
        assert (report.published, report.stopped_early) == (150, True)
        with env.database.connection() as connection:
            for _ in range(150):
                env.post()
            tables.claim(connection, uuid4(), 150, env.now)
        env.pass_time(SILENT_SECONDS + 1)
        late = publish(env.publish_effects(), env.now, elapsed=iter((0.0, 30.0)).__next__)
        assert (late.taken_over, late.published, late.stopped_early) == (100, 100, True)
        assert env.publish().published == 50

    def test_clock_of_the_publisher_has_no_effect(self, env: Environment) -> None:
        """D1: no statement gets the process's time; a clock that is ten minutes off makes no difference."""
        env.post()
        report = publish(env.publish_effects())  # without a time, as in production
        assert report.published == 1
        assert publish(env.publish_effects(), elapsed=lambda: -600.0).published == 0


class TestLostMessages:
    """Published but never handled events are sent again after some time."""

    def test_lost_message_is_sent_again_and_handled_once(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.publish()
        env.sqs.clear(EVENTS)
        env.pass_time(RESEND_SECONDS)
        assert env.publish().sent_again == 0
        env.pass_time(1)
        assert env.publish(scheduled=False).sent_again == 0
        assert env.publish().sent_again == 1
        assert env.publish().sent_again == 0
        env.run_until_idle()
        assert env.status(auth_error_id) == "ANALYSIS_COMPLETED"

    def test_waiting_or_handled_event_is_not_sent_again(self, env: Environment) -> None:
        env.post()
        env.run_until_idle()
        env.pass_time(RESEND_SECONDS * 4)
        assert env.publish().sent_again == 0

    def test_event_handled_before_it_is_marked_published_is_done(self, env: Environment) -> None:
        auth_error_id = env.post()
        env.using(tables.claim, uuid4(), 10, env.now)
        assert env.consume(env.message(auth_error_id)).outcome == "HANDLED"
        env.pass_time(SILENT_SECONDS + 1)
        env.run_until_idle()
        env.pass_time(RESEND_SECONDS + 1)
        assert env.publish().sent_again == 0
        assert env.events(auth_error_id)[0].handled_at is not None
