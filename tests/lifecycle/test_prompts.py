"""Texts for runs and people (LIFE-4): within limits, and always the same."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from dpp.lifecycle.flow import prompts
from dpp.lifecycle.flow.machine import TaskStatus
from dpp.lifecycle.flow.model import MAX_BODY, MAX_TITLE, EventKind, Subject, Task
from dpp.packs.inputs.decision import DecisionInputs

_AT = datetime(2026, 3, 1, tzinfo=UTC)
_WORD = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60)


def _a_task(subject: Subject, kind: EventKind = EventKind.ASSIGNED, answer: str | None = None) -> Task:
    return Task(
        task_id="task-20260301-001",
        event_id="e",
        kind=kind,
        subject=subject,
        status=TaskStatus.IN_PROGRESS,
        outcome=None,
        attempt=2,
        run_id=None,
        waits_for_person=False,
        answer=answer,
        last_failure=None,
        created_at=_AT,
        started_at=_AT,
        ended_at=None,
    )


@given(
    st.builds(
        Subject,
        place=st.just("a/repo"),
        title=_WORD.filter(lambda text: bool(text.strip())),
        actor=_WORD,
        url=_WORD,
        body=_WORD,
    ),
    st.sampled_from(EventKind),
    st.none() | st.text(min_size=1, max_size=60),
)
def test_run_requests_are_valid_inputs_and_always_the_same(
    subject: Subject, kind: EventKind, answer: str | None
) -> None:
    task = _a_task(subject, kind, answer)
    request = prompts.run_request_of(task)
    DecisionInputs(question=request.question, context=request.context)
    assert request == prompts.run_request_of(task)
    assert (request.key, request.session_id) == ("task-20260301-001-2", "task-20260301-001")
    assert prompts.prompt_of(task) == prompts.prompt_of(task)
    assert 1 <= len(prompts.opening(kind, subject)) <= 4_000


def test_the_longest_subject_stays_in_bounds() -> None:
    long = Subject(place="p" * MAX_TITLE, title="t" * MAX_TITLE, url="u" * 2_000, actor="a" * 300, body="b" * MAX_BODY)
    task = _a_task(long, answer="x" * 4_000)
    request = prompts.run_request_of(task)
    DecisionInputs(question=request.question, context=request.context)
    for text in (
        prompts.opening(EventKind.UPDATED, long),
        prompts.question_to_person(task, "f" * 500),
        prompts.success("s" * 20_000, "0.0200"),
        prompts.failure(task, "f" * 500),
    ):
        assert 1 <= len(text) <= 4_000


def test_prompt_is_markdown_with_the_answer_of_a_person() -> None:
    subject = Subject(place="a/repo", title="A bug", url="https://example.com/1", actor="kim", body="It fails.")
    assert prompts.prompt_of(_a_task(subject, answer="Only on Mondays.")) == (
        "# task-20260301-001\n\n"
        "This was assigned to us. What has to be done, and what comes first? A bug\n\n"
        "## A bug\n\n"
        "- Where: a/repo\n- Link: https://example.com/1\n- By: kim\n\n"
        "It fails.\n\n"
        "## Answer of a person\n\nOnly on Mondays.\n"
    )
