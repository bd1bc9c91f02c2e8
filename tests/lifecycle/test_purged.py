"""A task whose event was lost, as after a restore of older rows, does not need it (LIFE-2, LIFE-8)."""

from datetime import timedelta

import pytest

from dpp.lifecycle.flow.machine import EventStatus
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.retention import classes
from tests.lifecycle.environment import ASKS, SUCCEEDED, Environment
from tests.support.retention_batches import deleted, named

_CLASSES = ("results", "prompts", "session_logs", "messages", "tasks")


@pytest.mark.parametrize("ticks", [0, 1], ids=["not begun", "at work"])
def test_task_without_its_event_ends_is_reported_and_is_deleted_in_time(env: Environment, ticks: int) -> None:
    task_id = env.started("lost", plan=[ASKS, SUCCEEDED], ticks=ticks)
    env.rows("DELETE FROM lifecycle_events")
    env.rows("DELETE FROM lifecycle_seen")
    env.run_ticks(3)
    env.answer(task_id, "yes")
    env.run_ticks(4)
    task = env.task(task_id)
    assert (task.status, task.outcome, task.attempt) == ("COMPLETED", "SUCCEEDED", 2)
    kinds = ["THREAD_START", "HUMAN_INPUT_REQUEST", "TASK_RESULT"]
    assert env.messages(task_id) == [(kind, "SENT") for kind in kinds]
    with env.database.connection() as connection:
        assert read.whole(connection, env.objects, task_id).task.subject == task.subject
        assert read.events(connection, below=None, limit=9, status=EventStatus.DISPATCHED).events == []
        for name in _CLASSES:
            assert deleted(connection, named(classes.CLASSES, name), env.now + timedelta(days=7)) > 0, name
    assert env.rows("SELECT task_id FROM lifecycle_tasks") == []
    assert env.unregistered() == set(env.bucket.objects)
