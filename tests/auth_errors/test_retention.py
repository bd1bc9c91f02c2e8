"""Retention of authentication errors (LIFE-8; AUTH-5): handled events and decided errors."""

from datetime import datetime, timedelta

from dpp.auth_errors.retention import CLASSES
from tests.auth_errors.environment import Environment
from tests.support.retention_batches import deleted, named

OUTBOX, ERRORS = named(CLASSES, "outbox"), named(CLASSES, "auth_errors")


def _days_on(env: Environment, days: float) -> datetime:
    return env.now + timedelta(days=days)


def test_handled_event_is_deleted_with_its_processed_message(env: Environment) -> None:
    old = env.post()
    env.run_until_idle()
    env.pass_time(20 * 86_400)
    young = env.post()
    env.run_until_idle()
    assert env.using(OUTBOX.due, _days_on(env, -10), 100) == 2
    assert env.using(deleted, OUTBOX, _days_on(env, -10), limit=1) == 2
    use = env.using(OUTBOX.use, env.now)
    assert (env.events(old), len(env.events(young))) == ([], 2)
    assert env.rows("SELECT count(*) FROM processed_message") == [(2,)]
    assert (use.rows, use.rows_a_day) == (2, 2)


def test_dead_event_stays_until_an_operator_revives_it(env: Environment) -> None:
    env.handlers.clear()
    auth_error_id = env.post()
    env.recover(rounds=12, seconds=700)
    env.pass_time(400 * 86_400)
    assert env.using(deleted, OUTBOX, _days_on(env, 1)) == 0
    assert env.processed(auth_error_id).status == "DEAD"


def test_terminal_error_without_pending_events_is_deleted(env: Environment) -> None:
    analysed, decided = env.post(), env.post()
    env.run_until_idle()
    env.rows(
        "UPDATE auth_error SET status = 'IGNORED', moved_by = 'kim', updated_at = updated_at"
        f" WHERE auth_error_id = '{decided}' RETURNING 1"
    )
    with env.database.connection() as connection:
        assert deleted(connection, ERRORS, _days_on(env, 1)) == 0  # its events are still there
        deleted(connection, OUTBOX, _days_on(env, 1))
        assert ERRORS.use(connection, env.now).rows == 2
        assert deleted(connection, ERRORS, _days_on(env, -1)) == 0
        assert deleted(connection, ERRORS, _days_on(env, 1)) == 1
        assert ERRORS.use(connection, env.now).rows == 1
    assert [str(row[0]) for row in env.rows("SELECT auth_error_id FROM auth_error")] == [str(analysed)]
