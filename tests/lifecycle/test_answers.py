"""What a person answers, early, late, twice or in another thread (LIFE-10)."""

import pytest

from dpp.lifecycle.flow.errors import NothingAwaited, TaskNotFound
from dpp.lifecycle.flow.model import Thread
from tests.lifecycle.court import ASKS, SUCCEEDED, Court, a_court, a_url  # noqa: F401 - fixtures


def _awaited(court: Court) -> int:
    return int(court.rows("SELECT count(*) FROM lifecycle_awaiting")[0][0])


def _asked(court: Court, plan: list[str]) -> str:
    """A task whose question is with a person."""
    task_id = court.started("unclear", plan=plan, looks=2)
    court.envoy()
    assert court.task(task_id).waits_for_person
    assert _awaited(court) == 1
    return task_id


def test_an_answer_in_the_thread_sends_another_soldier_with_it(court: Court) -> None:
    task_id = _asked(court, [ASKS, SUCCEEDED])
    assert court.messages(task_id) == [("THREAD_START", "SENT"), ("HUMAN_INPUT_REQUEST", "SENT")]
    assert court.general().at_work == 0
    assert court.answer_in_thread(court.thread(task_id), "  it is the second one  ")
    task = court.task(task_id)
    assert (task.waits_for_person, task.attempt, task.run_id, task.answer) == (
        False,
        2,
        None,
        "it is the second one",
    )
    assert _awaited(court) == 0
    court.settle(3)
    assert court.task(task_id).outcome == "SUCCEEDED"
    assert "it is the second one" in (court.soldiers.orders[f"{task_id}-2"].context or "")
    assert b"it is the second one" in court.bucket.objects[f"state/prompts/{task_id}.md"]
    kinds = [kind for kind, _ in court.messages(task_id)]
    assert kinds == ["THREAD_START", "HUMAN_INPUT_REQUEST", "TASK_RESULT"]


def test_an_answer_twice_is_one(court: Court) -> None:
    task_id = _asked(court, [ASKS, SUCCEEDED])
    thread = court.thread(task_id)
    assert [court.answer_in_thread(thread, "yes") for _ in range(2)] == [True, False]
    assert court.task(task_id).attempt == 2


def test_an_answer_that_comes_again_is_none_to_the_next_question(court: Court) -> None:
    """Slack tells a reply again minutes later, if it did not hear that the first was taken."""
    task_id = _asked(court, [ASKS, ASKS, SUCCEEDED])
    thread = court.thread(task_id)
    assert court.answer_in_thread(thread, "yes")
    court.general()
    court.pass_time(130)
    court.general()
    assert court.task(task_id).waits_for_person
    assert not court.answer_in_thread(thread, "yes")
    assert court.answer_in_thread(thread, "yes, the second one")
    assert court.task(task_id).attempt == 3


def test_an_answer_before_the_envoy_knows_that_it_asked_is_taken(court: Court) -> None:
    """He died between Slack's taking the question and its being SENT."""
    task_id = court.started("unclear", plan=["AT_WORK", SUCCEEDED])
    court.envoy()
    court.soldiers.plans["unclear"] = [ASKS, SUCCEEDED]
    court.general()
    assert court.answer_in_thread(court.thread(task_id), "early")
    court.envoy()
    assert court.messages(task_id)[1] == ("HUMAN_INPUT_REQUEST", "SENT")
    assert _awaited(court) == 0
    court.settle(3)
    assert court.task(task_id).outcome == "SUCCEEDED"
    assert _awaited(court) == 0


def test_an_operator_answers_without_any_thread(court: Court) -> None:
    court.slack.tells_threads = False
    task_id = _asked(court, [ASKS, ASKS, SUCCEEDED])
    court.answer(task_id, "yes")
    court.settle(2)
    assert court.task(task_id).waits_for_person
    court.answer(task_id, "yes")
    court.settle(3)
    assert court.task(task_id).outcome == "SUCCEEDED"
    assert _awaited(court) == 0


def test_an_answer_that_comes_late_finds_nothing_waiting(court: Court) -> None:
    task_id = _asked(court, [ASKS, SUCCEEDED])
    thread = court.thread(task_id)
    court.answer(task_id, "in time")
    assert not court.answer_in_thread(thread, "late")
    court.settle(4)
    assert not court.answer_in_thread(thread, "too late")
    with pytest.raises(NothingAwaited):
        court.answer(task_id, "too late")
    assert court.task(task_id).answer == "in time"


def test_what_is_no_answer_is_refused(court: Court) -> None:
    task_id = _asked(court, [ASKS])
    assert not court.answer_in_thread(Thread("C0COURT", "1.0"), "to nobody")
    assert not court.answer_in_thread(court.thread(task_id), " \x00 ")
    with pytest.raises(ValueError, match="a word"):
        court.answer(task_id, "")
    with pytest.raises(TaskNotFound):
        court.answer("task-20200101-001", "yes")
    assert court.task(task_id).waits_for_person


def test_an_answer_is_kept_in_bounds(court: Court) -> None:
    task_id = _asked(court, [ASKS])
    court.answer(task_id, "\x00\ud800" + "가" * 5_000)
    kept = court.task(task_id).answer or ""
    assert len(kept) == 4_000
    assert kept.startswith("?가")
    assert kept.endswith("…")


def test_an_attempt_after_an_answer_still_counts(court: Court) -> None:
    """Whoever answers spends no more than max_attempts allows."""
    task_id = court.started("unclear", plan=[ASKS], looks=2)
    for number in range(2):
        court.answer(task_id, f"answer {number}")
        court.settle(2)
    assert (court.task(task_id).outcome, court.task(task_id).attempt) == ("FAILED", 3)
    assert len(court.soldiers.sent) == 3
