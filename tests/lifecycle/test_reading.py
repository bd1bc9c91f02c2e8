"""What an operator sees: pages, one task whole, the backlog (LIFE-10, LIFE-12)."""

import pytest

from dpp.lifecycle.flow.errors import TaskNotFound
from dpp.lifecycle.flow.machine import EventStatus, TaskStatus
from dpp.lifecycle.flow.reading import read
from tests.lifecycle.court import ASKS, AT_WORK, Court, a_court, a_url  # noqa: F401 - fixtures


def _whole(court: Court, task_id: str) -> read.WholeTask:
    with court.database.connection() as connection:
        return read.whole(connection, court.objects, task_id)


def _backlog(court: Court) -> read.Backlog:
    with court.database.connection() as connection:
        return read.backlog(connection, court.now)


def test_pages_go_from_the_newest_to_the_oldest(court: Court) -> None:
    ids = [court.emit(f"task {number}") for number in range(5)]
    court.king()
    below, seen = None, []
    with court.database.connection() as connection:
        while True:
            page = read.events(connection, below=below, limit=2, status=EventStatus.DISPATCHED)
            seen += [one.event_id for one in page.events]
            if (below := page.below) is None:
                break
        tasks = read.tasks(connection, below=None, limit=9, status=TaskStatus.PENDING)
        none = read.tasks(connection, below=None, limit=9, status=TaskStatus.COMPLETED)
    assert seen == ids[::-1]
    assert [one.event_id for one in tasks.tasks] == ids[::-1]
    assert (tasks.below, none.tasks) == (None, [])


def test_a_task_is_read_with_all_of_its_things(court: Court) -> None:
    task_id = court.started(looks=3)
    found = _whole(court, task_id)
    assert found.task.task_id == task_id
    assert [one.kind for one in found.messages] == ["THREAD_START", "TASK_RESULT"]
    assert found.objects == court.bucket.objects


def test_a_task_at_work_is_read_without_what_is_yet_to_be_written(court: Court) -> None:
    task_id = court.started(plan=[AT_WORK])
    del court.bucket.objects[f"state/results/{task_id}-soldier-id"]
    assert f"state/prompts/{task_id}.md" in _whole(court, task_id).objects


def test_a_prompt_past_its_three_days_is_simply_absent(court: Court) -> None:
    """LIFE-4."""
    task_id = court.started(looks=3)
    prompt = f"state/prompts/{task_id}.md"
    court.rows("DELETE FROM lifecycle_objects WHERE kind = 'PROMPT'")
    del court.bucket.objects[prompt]
    assert prompt not in _whole(court, task_id).objects


@pytest.mark.parametrize("kind", ["RESULT", "SESSION_LOG", "PROMPT"])
def test_what_is_deleted_while_it_is_read_is_gone_as_a_whole(court: Court, kind: str) -> None:
    """LIFE-12: never half an item. The chamberlain comes between the rows and the first object."""
    task_id = court.started(looks=3)
    keys = [
        row[0]
        for row in court.rows("SELECT object_key FROM lifecycle_objects WHERE kind = %(k)s", {"k": kind})
    ]

    class Deleted:
        put, delete = court.objects.put, court.objects.delete

        def get(self, key: str) -> bytes | None:
            if any(court.bucket.objects.pop(one, None) for one in keys):
                court.rows("DELETE FROM lifecycle_objects WHERE kind = %(kind)s", {"kind": kind})
            return court.objects.get(key)

    with court.database.connection() as connection:
        if kind == "PROMPT":
            assert len(read.whole(connection, Deleted(), task_id).objects) == 6
        else:
            with pytest.raises(TaskNotFound):
                read.whole(connection, Deleted(), task_id)


def test_half_of_its_results_is_none(court: Court) -> None:
    task_id = court.started(looks=3)
    key = f"state/results/{task_id}.json"
    court.rows("DELETE FROM lifecycle_objects WHERE object_key = %(key)s", {"key": key})
    with pytest.raises(TaskNotFound):
        _whole(court, task_id)


def test_an_unknown_task_is_not_found(court: Court) -> None:
    with pytest.raises(TaskNotFound):
        _whole(court, "task-20260301-009")


def test_all_results_of_a_task_are_kept_for_as_long(court: Court) -> None:
    """Else a chamberlain that comes between their days leaves half of them (LIFE-3)."""
    court.started(plan=[AT_WORK])
    court.pass_time(3 * 86_400)
    court.soldiers.plans.clear()
    court.general()
    times = court.rows("SELECT DISTINCT created_at FROM lifecycle_objects WHERE kind = 'RESULT'")
    assert times == [(court.now,)]


def test_the_backlog_of_an_empty_court_is_all_zero(court: Court) -> None:
    assert set(vars_of(_backlog(court)).values()) == {0}


def test_the_backlog_says_what_is_open_and_for_how_long(court: Court) -> None:
    court.started("unclear", plan=[ASKS], looks=2)
    court.envoy()
    court.started("busy", plan=[AT_WORK])
    court.emit("new")
    court.pass_time(100)
    found = _backlog(court)
    assert (found.events_pending, found.events_dispatched, found.oldest_event_seconds) == (1, 2, 100)
    assert (found.tasks_pending, found.tasks_in_progress, found.tasks_waiting_for_person) == (0, 1, 1)
    assert (found.messages_pending, found.oldest_message_seconds) == (1, 230)
    assert (found.old_threads, found.old_awaiting) == (0, 0)
    court.pass_time(7 * 86_400)
    assert (_backlog(court).old_threads, _backlog(court).old_awaiting) == (1, 1)


def vars_of(backlog: read.Backlog) -> dict[str, float]:
    """Its figures by name."""
    return {name: getattr(backlog, name) for name in backlog.__dataclass_fields__}
