"""Two of a role at the same time: nothing is done twice, and no id is given twice (LIFE-1, LIFE-2, LIFE-5, LIFE-11)."""

from collections.abc import Callable

import psycopg

from dpp.lifecycle.flow import store
from dpp.platform.db.postgres import Database
from tests.lifecycle.court import Court, a_court, a_url  # noqa: F401 - fixtures
from tests.threads import at_once

MANY, WORKERS = 12, 3


def test_ids_are_unique_and_without_a_gap(court: Court) -> None:
    given: list[str] = []

    def take(database: Database) -> None:
        for _ in range(MANY):
            with database.connection() as connection, connection.transaction():
                given.append(store.next_id(connection, "task", court.now))

    at_once(court.url, *[take] * WORKERS)
    assert sorted(given) == [f"task-20260301-{number:03}" for number in range(1, WORKERS * MANY + 1)]


def test_kings_make_one_task_an_event(court: Court) -> None:
    for number in range(MANY):
        court.emit(f"event {number}")
    at_once(court.url, *[court.king] * WORKERS)
    assert court.rows("SELECT count(*), count(DISTINCT event_id) FROM lifecycle_tasks") == [(MANY, MANY)]
    assert court.rows("SELECT count(*) FROM lifecycle_messages WHERE kind = 'THREAD_START'") == [(MANY,)]
    assert court.rows("SELECT DISTINCT status FROM lifecycle_events") == [("DISPATCHED",)]


def test_an_event_that_a_king_has_in_hand_is_skipped_and_not_waited_for(court: Court) -> None:
    first, second = court.emit("first"), court.emit("second")
    with psycopg.connect(court.url) as other:
        other.execute("SELECT FROM lifecycle_events WHERE event_id = %s FOR UPDATE", (first,))
        assert court.king().dispatched == 1
    assert (court.event(first)[0], court.event(second)[0]) == ("PENDING", "DISPATCHED")


def test_generals_send_one_soldier_a_task_and_write_one_result(court: Court) -> None:
    for number in range(MANY):
        court.emit(f"event {number}")
    court.king()
    for _ in range(2):
        at_once(court.url, *[lambda database: court.general(court.generals(database=database))] * WORKERS)
        court.pass_time(130)
    assert sorted(court.soldiers.sent) == [f"task-20260301-{number:03}-1" for number in range(1, MANY + 1)]
    assert court.rows("SELECT count(*) FROM lifecycle_tasks WHERE outcome = 'SUCCEEDED'") == [(MANY,)]
    assert court.rows("SELECT count(*) FROM lifecycle_messages WHERE kind = 'TASK_RESULT'") == [(MANY,)]


def test_envoys_send_each_message_once_and_in_order(court: Court) -> None:
    for number in range(MANY):
        court.emit(f"event {number}")
    court.king()
    for _ in range(2):
        court.general()
        court.pass_time(130)
    at_once(court.url, *[court.envoy] * WORKERS)
    court.envoy()
    assert len(court.slack.told) == len(set(court.slack.told)) == 2 * MANY
    places = {told: place for place, told in enumerate(court.slack.told)}
    for start, result in court.rows(
        "SELECT a.message_id, b.message_id FROM lifecycle_messages a JOIN lifecycle_messages b USING (task_id)"
        " WHERE a.kind = 'THREAD_START' AND b.kind = 'TASK_RESULT'"
    ):
        assert places[start] < places[result]


def test_an_answer_and_the_envoy_s_note_leave_nothing_awaited(court: Court) -> None:
    """Whichever is first."""
    for number in range(6):
        task_id = court.started(f"unclear {number}", plan=["ASKS", "SUCCEEDED"], looks=2)
        at_once(court.url, court.envoy, _answering(court, task_id))
        assert court.rows("SELECT count(*) FROM lifecycle_awaiting") == [(0,)]
        assert court.task(task_id).attempt == 2


def _answering(court: Court, task_id: str) -> Callable[[Database], None]:
    return lambda _: court.answer(task_id, "yes")
