"""The texts of a task for runs and people. Pure: the same task always has the same texts.

So a run that is submitted again after a crash has the same payload, and the same run is returned (RUN-4).
"""

from collections.abc import Mapping
from types import MappingProxyType

from dpp.lifecycle.flow.model import EventKind, Subject, Task, bounded
from dpp.lifecycle.flow.ports import TaskRunRequest

MAX_QUESTION = 4_000
MAX_CONTEXT = 200_000
MAX_MESSAGE = 4_000
"""In characters: the limits of the decision pack and of a message."""
_MAX_SUMMARY = 3_000

_WHY: Mapping[EventKind, str] = MappingProxyType(
    {
        EventKind.MENTIONED: "Mentioned",
        EventKind.ASSIGNED: "Assigned",
        EventKind.REVIEW_REQUESTED: "Review requested",
        EventKind.UPDATED: "Updated",
    }
)
_QUESTIONS: Mapping[EventKind, str] = MappingProxyType(
    {
        EventKind.MENTIONED: "We were mentioned. What is asked of us, and what should we answer?",
        EventKind.ASSIGNED: "This was assigned to us. What has to be done, and what comes first?",
        EventKind.REVIEW_REQUESTED: "Our review was requested. What does the change do, and what needs a closer look?",
        EventKind.UPDATED: "This was updated. What has changed, and what should we do about it?",
    }
)


def prompt_of(task: Task) -> str:
    """The prompt as it is stored: Markdown, with the answer of a person if there is one."""
    return f"# {task.task_id}\n\n{_question(task)}\n\n{_material(task)}\n"


def run_request_of(task: Task) -> TaskRunRequest:
    """The input for the run of the current attempt, within the limits of the decision pack."""
    return TaskRunRequest(
        key=task.run_key,
        session_id=task.session_id,
        question=bounded(_question(task), MAX_QUESTION),
        context=bounded(_material(task), MAX_CONTEXT),
    )


def opening(kind: EventKind, subject: Subject) -> str:
    """The message that opens a task's thread."""
    who = f" by {subject.actor}" if subject.actor else ""
    lines = (f"{_WHY[kind]}{who} in {subject.place}: {subject.title}", subject.url)
    return bounded("\n".join(line for line in lines if line), MAX_MESSAGE)


def question_to_person(task: Task, failure: str) -> str:
    """The message that asks a person for help."""
    lines = (
        f"No answer is reliable enough: {task.subject.title}",
        failure,
        "Reply in this thread with the missing information; the task continues with your answer.",
    )
    return bounded("\n".join(lines), MAX_MESSAGE)


def success(summary: str, charged_usd: str) -> str:
    """The message for a task that succeeded."""
    return bounded(f"Done for {charged_usd} USD.\n{bounded(summary, _MAX_SUMMARY)}", MAX_MESSAGE)


def failure(task: Task, why: str) -> str:
    """The message for a task that failed."""
    return bounded(f"Failed in attempt {task.attempt}: {why}", MAX_MESSAGE)


def _question(task: Task) -> str:
    return f"{_QUESTIONS[task.kind]} {task.subject.title}"


def _material(task: Task) -> str:
    subject = task.subject
    facts = (("Where", subject.place), ("Link", subject.url), ("By", subject.actor))
    parts = [f"## {subject.title}", "\n".join(f"- {name}: {value}" for name, value in facts if value)]
    if subject.body:
        parts.append(subject.body)
    if task.answer is not None:
        parts.append(f"## Answer of a person\n\n{task.answer}")
    return "\n\n".join(parts)
