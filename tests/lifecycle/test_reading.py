"""Queries for operators: pages, a complete task, the backlog (LIFE-10, LIFE-12)."""

import pytest

from dpp.lifecycle.flow.errors import TaskNotFound
from dpp.lifecycle.flow.machine import EventStatus, TaskStatus
from dpp.lifecycle.flow.reading import read
from tests.lifecycle.environment import ASKS, AT_WORK, Environment


def _whole(env: Environment, task_id: str) -> read.TaskWithObjects:
    return env.using(read.whole, env.objects, task_id)


def _backlog(env: Environment) -> read.Backlog:
    return env.using(read.backlog, env.now)


def test_pages_go_from_the_newest_to_the_oldest(env: Environment) -> None:
    ids = [env.emit(f"task {number}") for number in range(5)]
    env.dispatch()
    below, seen = None, []
    with env.database.connection() as connection:
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


def test_task_is_read_with_all_its_data(env: Environment) -> None:
    task_id = env.started(ticks=3)
    found = _whole(env, task_id)
    assert found.task.task_id == task_id
    assert [one.kind for one in found.messages] == ["THREAD_START", "TASK_RESULT"]
    assert found.objects == env.bucket.objects


def test_a_task_at_work_is_read_without_what_is_yet_to_be_written(env: Environment) -> None:
    task_id = env.started(plan=[AT_WORK])
    del env.bucket.objects[f"state/results/{task_id}-soldier-id"]
    assert f"state/prompts/{task_id}.md" in _whole(env, task_id).objects


def test_a_prompt_past_its_three_days_is_simply_absent(env: Environment) -> None:
    """LIFE-4."""
    task_id = env.started(ticks=3)
    prompt = f"state/prompts/{task_id}.md"
    env.rows("DELETE FROM lifecycle_objects WHERE kind = 'PROMPT'")
    del env.bucket.objects[prompt]
    assert prompt not in _whole(env, task_id).objects


@pytest.mark.parametrize("kind", ["RESULT", "SESSION_LOG", "PROMPT"])
def test_task_deleted_during_a_read_is_not_found(env: Environment, kind: str) -> None:
    """LIFE-12: the cleaner deletes between the rows and the first object."""
    task_id = env.started(ticks=3)
    keys = [row[0] for row in env.rows("SELECT object_key FROM lifecycle_objects WHERE kind = %(k)s", {"k": kind})]

    class Deleted:
        put, delete = env.objects.put, env.objects.delete

        def get(self, key: str) -> bytes | None:
            if any(env.bucket.objects.pop(one, None) for one in keys):
                env.rows("DELETE FROM lifecycle_objects WHERE kind = %(kind)s", {"kind": kind})
            return env.objects.get(key)

    with env.database.connection() as connection:
        if kind == "PROMPT":
            assert len(read.whole(connection, Deleted(), task_id).objects) == 6
        else:
            with pytest.raises(TaskNotFound):
                read.whole(connection, Deleted(), task_id)


def test_task_with_some_of_its_results_is_not_found(env: Environment) -> None:
    task_id = env.started(ticks=3)
    key = f"state/results/{task_id}.json"
    env.rows("DELETE FROM lifecycle_objects WHERE object_key = %(key)s", {"key": key})
    with pytest.raises(TaskNotFound):
        _whole(env, task_id)


def test_an_unknown_task_is_not_found(env: Environment) -> None:
    with pytest.raises(TaskNotFound):
        _whole(env, "task-20260301-009")


def test_all_results_of_a_task_are_kept_for_as_long(env: Environment) -> None:
    """Otherwise a cleanup between their periods would leave some of them (LIFE-3)."""
    env.started(plan=[AT_WORK])
    env.pass_time(3 * 86_400)
    env.task_runs.plans.clear()
    env.run_tasks()
    times = env.rows("SELECT DISTINCT created_at FROM lifecycle_objects WHERE kind = 'RESULT'")
    assert times == [(env.now,)]


def test_backlog_without_rows_is_zero(env: Environment) -> None:
    assert set(vars_of(_backlog(env)).values()) == {0}


def test_the_backlog_says_what_is_open_and_for_how_long(env: Environment) -> None:
    env.started("unclear", plan=[ASKS], ticks=2)
    env.notify()
    env.started("busy", plan=[AT_WORK])
    env.emit("new")
    env.pass_time(100)
    found = _backlog(env)
    assert (found.events_pending, found.events_dispatched, found.oldest_event_seconds) == (1, 2, 100)
    assert (found.tasks_pending, found.tasks_in_progress, found.tasks_waiting_for_person) == (0, 1, 1)
    assert (found.messages_pending, found.oldest_message_seconds) == (1, 230)
    assert (found.old_threads, found.old_awaiting) == (0, 0)
    env.pass_time(7 * 86_400)
    assert (_backlog(env).old_threads, _backlog(env).old_awaiting) == (1, 1)


def vars_of(backlog: read.Backlog) -> dict[str, float]:
    """The fields by name."""
    return {name: getattr(backlog, name) for name in backlog.__dataclass_fields__}
