"""Two instances of a role at the same time: nothing is done twice, and no id is used twice (LIFE-1, LIFE-2, LIFE-5,
LIFE-11)."""

from collections.abc import Callable

import psycopg

from dpp.lifecycle.flow import store
from dpp.platform.db.postgres import Database
from tests.lifecycle.environment import Environment
from tests.support.threads import at_once

MANY, WORKERS = 12, 3


def test_ids_are_unique_and_without_a_gap(env: Environment) -> None:
    given: list[str] = []

    def take(database: Database) -> None:
        for _ in range(MANY):
            with database.connection() as connection, connection.transaction():
                given.append(store.next_id(connection, "task", env.now))

    at_once(env.url, *[take] * WORKERS)
    assert sorted(given) == [f"task-20260301-{number:03}" for number in range(1, WORKERS * MANY + 1)]


def test_dispatchers_create_one_task_per_event(env: Environment) -> None:
    for number in range(MANY):
        env.emit(f"event {number}")
    at_once(env.url, *[env.dispatch] * WORKERS)
    assert env.rows("SELECT count(*), count(DISTINCT event_id) FROM lifecycle_tasks") == [(MANY, MANY)]
    assert env.rows("SELECT count(*) FROM lifecycle_messages WHERE kind = 'THREAD_START'") == [(MANY,)]
    assert env.rows("SELECT DISTINCT status FROM lifecycle_events") == [("DISPATCHED",)]


def test_locked_event_is_skipped(env: Environment) -> None:
    first, second = env.emit("first"), env.emit("second")
    with psycopg.connect(env.url) as other:
        other.execute("SELECT FROM lifecycle_events WHERE event_id = %s FOR UPDATE", (first,))
        assert env.dispatch().dispatched == 1
    assert (env.event(first)[0], env.event(second)[0]) == ("PENDING", "DISPATCHED")


def test_runners_submit_one_run_per_task_and_write_one_result(env: Environment) -> None:
    for number in range(MANY):
        env.emit(f"event {number}")
    env.dispatch()
    for _ in range(2):
        at_once(env.url, *[lambda database: env.run_tasks(env.runner_effects(database=database))] * WORKERS)
        env.pass_time(130)
    assert sorted(env.task_runs.sent) == [f"task-20260301-{number:03}-1" for number in range(1, MANY + 1)]
    assert env.rows("SELECT count(*) FROM lifecycle_tasks WHERE outcome = 'SUCCEEDED'") == [(MANY,)]
    assert env.rows("SELECT count(*) FROM lifecycle_messages WHERE kind = 'TASK_RESULT'") == [(MANY,)]


def test_notifiers_send_each_message_once_and_in_order(env: Environment) -> None:
    for number in range(MANY):
        env.emit(f"event {number}")
    env.dispatch()
    for _ in range(2):
        env.run_tasks()
        env.pass_time(130)
    at_once(env.url, *[env.notify] * WORKERS)
    env.notify()
    assert len(env.slack.posted_ids) == len(set(env.slack.posted_ids)) == 2 * MANY
    places = {message_id: place for place, message_id in enumerate(env.slack.posted_ids)}
    for start, result in env.rows(
        "SELECT a.message_id, b.message_id FROM lifecycle_messages a JOIN lifecycle_messages b USING (task_id)"
        " WHERE a.kind = 'THREAD_START' AND b.kind = 'TASK_RESULT'"
    ):
        assert places[start] < places[result]


def test_answer_during_the_send_leaves_nothing_awaited(env: Environment) -> None:
    """In any order."""
    for number in range(6):
        task_id = env.started(f"unclear {number}", plan=["ASKS", "SUCCEEDED"], ticks=2)
        at_once(env.url, env.notify, _answering(env, task_id))
        assert env.rows("SELECT count(*) FROM lifecycle_awaiting") == [(0,)]
        assert env.task(task_id).attempt == 2


def _answering(env: Environment, task_id: str) -> Callable[[Database], None]:
    return lambda _: env.answer(task_id, "yes")
