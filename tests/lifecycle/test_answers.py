"""Answers of a person: early, late, repeated or in another thread (LIFE-10)."""

import pytest

from dpp.lifecycle.flow.errors import NothingAwaited, TaskNotFound
from dpp.lifecycle.flow.model import Thread
from tests.lifecycle.environment import ASKS, SUCCEEDED, Environment


def _awaited(env: Environment) -> int:
    return int(env.rows("SELECT count(*) FROM lifecycle_awaiting")[0][0])


def _asked(env: Environment, plan: list[str]) -> str:
    """A task whose question a person has received."""
    task_id = env.started("unclear", plan=plan, ticks=2)
    env.notify()
    assert env.task(task_id).waits_for_person
    assert _awaited(env) == 1
    return task_id


def test_answer_in_the_thread_starts_another_run_with_it(env: Environment) -> None:
    task_id = _asked(env, [ASKS, SUCCEEDED])
    assert env.messages(task_id) == [("THREAD_START", "SENT"), ("HUMAN_INPUT_REQUEST", "SENT")]
    assert env.run_tasks().at_work == 0
    assert env.answer_in_thread(env.thread(task_id), "  it is the second one  ")
    task = env.task(task_id)
    assert (task.waits_for_person, task.attempt, task.run_id, task.answer) == (False, 2, None, "it is the second one")
    assert _awaited(env) == 0
    env.run_ticks(3)
    assert env.task(task_id).outcome == "SUCCEEDED"
    assert "it is the second one" in (env.task_runs.requests[f"{task_id}-2"].context or "")
    assert b"it is the second one" in env.bucket.objects[f"state/prompts/{task_id}.md"]
    kinds = [kind for kind, _ in env.messages(task_id)]
    assert kinds == ["THREAD_START", "HUMAN_INPUT_REQUEST", "TASK_RESULT"]


def test_repeated_answer_counts_once(env: Environment) -> None:
    task_id = _asked(env, [ASKS, SUCCEEDED])
    thread = env.thread(task_id)
    assert [env.answer_in_thread(thread, "yes") for _ in range(2)] == [True, False]
    assert env.task(task_id).attempt == 2


def test_repeated_answer_does_not_answer_the_next_question(env: Environment) -> None:
    """Slack repeats a reply minutes later if its receipt was not confirmed."""
    task_id = _asked(env, [ASKS, ASKS, SUCCEEDED])
    thread = env.thread(task_id)
    assert env.answer_in_thread(thread, "yes")
    env.run_tasks()
    env.pass_time(130)
    env.run_tasks()
    assert env.task(task_id).waits_for_person
    assert not env.answer_in_thread(thread, "yes")
    assert env.answer_in_thread(thread, "yes, the second one")
    assert env.task(task_id).attempt == 3


def test_answer_is_accepted_before_the_question_is_marked_sent(env: Environment) -> None:
    """The notifier crashed between Slack's reply and the status SENT."""
    task_id = env.started("unclear", plan=["AT_WORK", SUCCEEDED])
    env.notify()
    env.task_runs.plans["unclear"] = [ASKS, SUCCEEDED]
    env.run_tasks()
    assert env.answer_in_thread(env.thread(task_id), "early")
    env.notify()
    assert env.messages(task_id)[1] == ("HUMAN_INPUT_REQUEST", "SENT")
    assert _awaited(env) == 0
    env.run_ticks(3)
    assert env.task(task_id).outcome == "SUCCEEDED"
    assert _awaited(env) == 0


def test_operator_answers_without_a_thread(env: Environment) -> None:
    env.slack.tells_threads = False
    task_id = _asked(env, [ASKS, ASKS, SUCCEEDED])
    env.answer(task_id, "yes")
    env.run_ticks(2)
    assert env.task(task_id).waits_for_person
    env.answer(task_id, "yes")
    env.run_ticks(3)
    assert env.task(task_id).outcome == "SUCCEEDED"
    assert _awaited(env) == 0


def test_late_answer_has_no_effect(env: Environment) -> None:
    task_id = _asked(env, [ASKS, SUCCEEDED])
    thread = env.thread(task_id)
    env.answer(task_id, "in time")
    assert not env.answer_in_thread(thread, "late")
    env.run_ticks(4)
    assert not env.answer_in_thread(thread, "too late")
    with pytest.raises(NothingAwaited):
        env.answer(task_id, "too late")
    assert env.task(task_id).answer == "in time"


def test_invalid_answer_is_rejected(env: Environment) -> None:
    task_id = _asked(env, [ASKS])
    assert not env.answer_in_thread(Thread("C0COURT", "1.0"), "to nobody")
    assert not env.answer_in_thread(env.thread(task_id), " \x00 ")
    with pytest.raises(ValueError, match="must not be empty"):
        env.answer(task_id, "")
    with pytest.raises(TaskNotFound):
        env.answer("task-20200101-001", "yes")
    assert env.task(task_id).waits_for_person


def test_long_answer_is_cut(env: Environment) -> None:
    task_id = _asked(env, [ASKS])
    env.answer(task_id, "\x00\ud800" + "가" * 5_000)
    kept = env.task(task_id).answer or ""
    assert len(kept) == 4_000
    assert kept.startswith("?가")
    assert kept.endswith("…")


def test_attempt_after_an_answer_counts(env: Environment) -> None:
    """Answers do not exceed max_attempts."""
    task_id = env.started("unclear", plan=[ASKS], ticks=2)
    for number in range(2):
        env.answer(task_id, f"answer {number}")
        env.run_ticks(2)
    assert (env.task(task_id).outcome, env.task(task_id).attempt) == ("FAILED", 3)
    assert len(env.task_runs.sent) == 3
