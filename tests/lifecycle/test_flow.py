"""Events, tasks and their objects (LIFE-1 … LIFE-4, LIFE-12), with planned runs."""

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from dpp.lifecycle.flow.errors import TaskRunRefused, TaskRunsUnavailable
from dpp.lifecycle.flow.ports import TaskRunRequest
from dpp.platform.errors import RedisUnavailable
from tests.lifecycle.environment import ASKS, AT_WORK, FAILED, SUCCEEDED, Environment

_DAY_AFTER = datetime(2026, 3, 2, 0, 0, 1, tzinfo=UTC)


def test_event_becomes_a_task_and_ends_with_its_outcome(env: Environment) -> None:
    event_id = env.emit("a pull request")
    assert env.dispatch().as_dict() == {"dispatched": 1, "completed": 0, "failed": 0, "unreadable": 0}
    assert env.event(event_id) == ("DISPATCHED", None)
    assert env.woken == ["GENERAL", "ENVOY"]
    env.run_ticks(3)
    task = env.task("task-20260301-001")
    assert (task.event_id, task.status, task.outcome, task.attempt) == (event_id, "COMPLETED", "SUCCEEDED", 1)
    assert env.event(event_id) == ("COMPLETED", None)
    assert env.messages(task.task_id) == [("THREAD_START", "SENT"), ("TASK_RESULT", "SENT")]
    assert env.rows("SELECT role FROM lifecycle_heartbeats ORDER BY role") == [("ENVOY",), ("GENERAL",), ("KING",)]


def test_objects_of_a_task_have_their_keys_and_rows(env: Environment) -> None:
    task_id = env.started(ticks=2)
    run_id = str(env.task(task_id).run_id)
    assert set(env.bucket.objects) == {
        f"state/results/{task_id}.json",
        f"state/results/{task_id}-raw.json",
        f"state/results/{task_id}-soldier-id",
        f"state/results/{task_id}-session-id",
        f"state/prompts/{task_id}.md",
        f"logs/sessions/{run_id}.json",
        f"logs/sessions/{run_id}.err",
    }
    assert env.unregistered() == set()
    assert env.result(task_id) == {
        "task_id": task_id,
        "status": "SUCCEEDED",
        "summary": f"answer of {task_id}-1",
        "charged_usd": "0.0200",
        "soldier_id": run_id,
        "session_id": task_id,
        "attempt": 1,
        "finished_at": "2026-03-01T12:00:09+00:00",
    }
    assert env.bucket.objects[f"logs/sessions/{run_id}.err"] == b""
    assert json.loads(env.bucket.objects[f"state/results/{task_id}-raw.json"])["run_id"] == run_id
    sizes = dict(env.rows("SELECT object_key, bytes FROM lifecycle_objects"))
    assert sizes == {key: len(body) for key, body in env.bucket.objects.items()}


def test_task_fails_after_its_last_attempt_and_its_event_has_the_reason(env: Environment) -> None:
    """LIFE-1: failed after retry."""
    event_id = "github-doomed"
    task_id = env.started("doomed", plan=[FAILED], ticks=6)
    env.dispatch()
    assert env.task_runs.sent == [f"{task_id}-{attempt}" for attempt in (1, 2, 3)]
    assert env.task(task_id).outcome == "FAILED"
    assert env.event(event_id) == ("FAILED", "PACK_FAILED: as planned")
    assert env.result(task_id)["summary"] == "PACK_FAILED: as planned"
    errors = [body for key, body in env.bucket.objects.items() if key.endswith(".err")]
    assert errors == [b"PACK_FAILED: as planned\n"] * 3
    assert env.messages(task_id)[-1] == ("TASK_RESULT", "PENDING")


def test_missing_run_is_a_failed_attempt(env: Environment) -> None:
    task_id = env.started("vanishing", plan=["GONE", SUCCEEDED], ticks=2)
    assert env.task(task_id).last_failure == "the run no longer exists"
    env.run_ticks(2)
    assert (env.task(task_id).outcome, env.task(task_id).attempt) == ("SUCCEEDED", 2)


def test_rejected_run_fails_the_task_at_once(env: Environment) -> None:
    env.task_runs.refusal = TaskRunRefused("no such question")
    task_id = env.started()
    task = env.task(task_id)
    assert (task.outcome, task.attempt, task.last_failure) == ("FAILED", 1, "no such question")
    assert env.result(task_id)["soldier_id"] is None


def test_task_waits_for_a_run_without_using_an_attempt(env: Environment) -> None:
    env.task_runs.refusal = TaskRunsUnavailable("the budget is drained")
    task_id = env.started(ticks=5)
    task = env.task(task_id)
    assert (task.status, task.attempt, task.run_id) == ("IN_PROGRESS", 1, None)
    assert "the budget is drained" in (task.last_failure or "")
    env.task_runs.refusal = None
    env.run_ticks(3)
    assert (env.task(task_id).outcome, env.task(task_id).attempt) == ("SUCCEEDED", 1)
    assert env.task(task_id).last_failure is None


def test_pause_between_checks_grows_while_a_run_works(env: Environment) -> None:
    task_id = env.started(plan=[AT_WORK], ticks=0)
    env.run_tasks()
    pauses = []
    for _ in range(12):
        ((pause,),) = env.rows(
            "SELECT extract(epoch FROM next_look_at - %(now)s) FROM lifecycle_tasks", {"now": env.now}
        )
        pauses.append(float(pause))
        env.pass_time(pauses[-1])
        assert env.run_tasks().at_work == 1
    assert pauses[0] == 3
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60
    assert env.task(task_id).status == "IN_PROGRESS"


def test_failure_of_one_task_does_not_affect_others(env: Environment) -> None:
    class Troubled:
        def send(self, request: TaskRunRequest) -> UUID:
            if "first" in request.question:
                raise RedisUnavailable
            return env.task_runs.send(request)

        report = env.task_runs.report

    for title in ("first", "second"):
        env.emit(title)
    env.dispatch()
    report = env.run_tasks(env.runner_effects(task_runs=Troubled()))
    assert (report.left, report.sent) == (1, 1)
    env.run_ticks(3)
    assert env.rows("SELECT DISTINCT outcome FROM lifecycle_tasks") == [("SUCCEEDED",)]


def test_unreadable_event_is_left_and_delays_no_other(env: Environment) -> None:
    env.rows("INSERT INTO lifecycle_seen VALUES ('odd', now())")
    env.rows(
        "INSERT INTO lifecycle_events (event_id, source, kind, arrived_by, payload, happened_at, status, created_at)"
        " VALUES ('odd', 'JIRA', 'UPDATED', 'POLL', '{\"of another version\": 1}', now(), 'PENDING', now())"
    )
    event_id = env.emit("even")
    report = env.dispatch()
    assert (report.unreadable, report.dispatched) == (1, 1)
    assert env.event(event_id)[0] == "DISPATCHED"
    assert env.event("odd")[0] == "PENDING"


def test_event_without_its_task_fails(env: Environment) -> None:
    task_id = env.started()
    env.notify()
    env.rows("DELETE FROM lifecycle_threads")
    env.rows("DELETE FROM lifecycle_tasks")
    env.dispatch()
    assert env.event("github-a-task") == ("FAILED", "its task is gone")
    env.run_ticks(2)
    assert env.messages(task_id) == [("THREAD_START", "SENT")]


def test_deletion_of_an_event_does_not_affect_its_task(env: Environment) -> None:
    task_id = env.started()
    env.rows("DELETE FROM lifecycle_events")
    env.run_ticks(3)
    assert env.task(task_id).outcome == "SUCCEEDED"
    assert env.messages(task_id) == [("THREAD_START", "SENT"), ("TASK_RESULT", "SENT")]


def test_repeated_event_after_a_deletion_ends_with_the_existing_task(env: Environment) -> None:
    env.started(plan=[AT_WORK])
    env.rows("DELETE FROM lifecycle_events")
    env.rows("DELETE FROM lifecycle_seen")
    event_id = env.emit("a task", plan=[SUCCEEDED])
    env.run_ticks(3)
    assert env.event(event_id) == ("COMPLETED", None)
    assert env.rows("SELECT count(*) FROM lifecycle_tasks") == [(1,)]


def test_ids_restart_each_day_and_a_late_clock_starts_no_day(env: Environment) -> None:
    env.started("one", ticks=0)
    env.started("two", ticks=0)
    env.pass_time((_DAY_AFTER - env.now).total_seconds())
    env.started("three", ticks=0)
    env.pass_time(-60)  # a transaction that began before midnight, and waited
    env.started("four", ticks=0)
    ids = [row[0] for row in env.rows("SELECT task_id FROM lifecycle_tasks ORDER BY sequence")]
    assert ids == ["task-20260301-001", "task-20260301-002", "task-20260302-001", "task-20260302-002"]


def test_thousandth_task_of_a_day_has_its_number(env: Environment) -> None:
    env.rows("INSERT INTO lifecycle_sequences VALUES ('task', '2026-03-01', 999)")
    assert env.started(ticks=0) == "task-20260301-1000"


def test_key_that_is_being_deleted_is_not_written(env: Environment) -> None:
    """The deletion that has begun would delete the new object as well."""
    env.rows("INSERT INTO lifecycle_deletions VALUES ('state/prompts/task-20260301-001.md', now(), 0, now())")
    task_id = env.started()
    assert env.bucket.objects == {}
    assert env.rows("SELECT count(*) FROM lifecycle_objects") == [(0,)]
    env.rows("DELETE FROM lifecycle_deletions")
    env.run_ticks(2)
    assert env.task(task_id).outcome == "SUCCEEDED"


@pytest.mark.parametrize("max_attempts", [1, 2])
def test_person_is_asked_only_if_an_attempt_is_left(env: Environment, max_attempts: int) -> None:
    task_id = env.started(plan=[ASKS], ticks=1)
    env.run_tasks(env.runner_effects(max_attempts=max_attempts))
    assert env.task(task_id).waits_for_person == (max_attempts == 2)
    assert env.task(task_id).status == ("IN_PROGRESS" if max_attempts == 2 else "COMPLETED")


def test_completed_task_is_not_written_again(env: Environment) -> None:
    """A runner that was suspended between reading and writing."""
    task_id = env.started()
    slept: list[Any] = []

    class Sleepy:
        send = env.task_runs.send

        def report(self, run_id: UUID) -> Any:
            if not slept:
                slept.append(True)
                env.pass_time(130)
                env.run_tasks()
                assert env.task(task_id).status == "COMPLETED"
                env.bucket.before_put = lambda key: pytest.fail(f"{key} was written")
            return env.task_runs.report(run_id)

    with closing(type(env.database)(env.url)) as database:
        assert env.run_tasks(env.runner_effects(database=database, task_runs=Sleepy())).lost == 1
