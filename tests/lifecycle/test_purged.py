"""A task that has lost its event, as after a restore of older rows: it has all it needs of it (LIFE-2, LIFE-8)."""

from datetime import timedelta

import pytest

from dpp.lifecycle.flow.machine import EventStatus
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.retention import classes
from tests.aging import deleted, named
from tests.lifecycle.court import ASKS, AT_WORK, SUCCEEDED, Court, a_court, a_url  # noqa: F401 - fixtures

_CLASSES = ("results", "prompts", "session_logs", "messages", "tasks")


@pytest.mark.parametrize("looks", [0, 1], ids=["not begun", "at work"])
def test_a_task_whose_event_was_purged_ends_is_told_of_and_goes_in_its_time(court: Court, looks: int) -> None:
    task_id = court.started("lost", plan=[ASKS, SUCCEEDED], looks=looks)
    court.rows("DELETE FROM lifecycle_events")
    court.rows("DELETE FROM lifecycle_seen")
    court.settle(3)
    court.answer(task_id, "yes")
    court.settle(4)
    task = court.task(task_id)
    assert (task.status, task.outcome, task.attempt) == ("COMPLETED", "SUCCEEDED", 2)
    said = ["THREAD_START", "HUMAN_INPUT_REQUEST", "TASK_RESULT"]
    assert court.messages(task_id) == [(kind, "SENT") for kind in said]
    with court.database.connection() as connection:
        assert read.whole(connection, court.objects, task_id).task.subject == task.subject
        assert read.events(connection, below=None, limit=9, status=EventStatus.DISPATCHED).events == []
        for name in _CLASSES:
            assert deleted(connection, named(classes.CLASSES, name), court.now + timedelta(days=7)) > 0, name
    assert court.rows("SELECT task_id FROM lifecycle_tasks") == []
    assert court.unregistered() == set(court.bucket.objects)
