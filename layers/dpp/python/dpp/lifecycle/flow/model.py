"""Events, tasks and messages. Pure: no clock, no I/O."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dpp.lifecycle.flow.machine import EventStatus, MessageStatus, TaskOutcome, TaskStatus


class Source(StrEnum):
    """The source of an event."""

    GITHUB = "GITHUB"
    JIRA = "JIRA"


class Arrival(StrEnum):
    """The way an event arrived: polled by the sentinel (poller), or delivered by a webhook."""

    POLL = "POLL"
    WEBHOOK = "WEBHOOK"


class EventKind(StrEnum):
    """The reason for accepting an event. UPDATED: a Jira issue that matches the filter has changed."""

    MENTIONED = "MENTIONED"
    ASSIGNED = "ASSIGNED"
    REVIEW_REQUESTED = "REVIEW_REQUESTED"
    UPDATED = "UPDATED"


class MessageKind(StrEnum):
    """The purpose of a message. THREAD_START opens the thread of its task, TASK_RESULT closes it."""

    THREAD_START = "THREAD_START"
    HUMAN_INPUT_REQUEST = "HUMAN_INPUT_REQUEST"
    TASK_RESULT = "TASK_RESULT"
    REPORT = "REPORT"


class ObjectKind(StrEnum):
    """The kind of an object, which determines its retention period."""

    RESULT = "RESULT"
    PROMPT = "PROMPT"
    SESSION_LOG = "SESSION_LOG"


@dataclass(frozen=True, slots=True)
class StateObject:
    """An object of a task to be written to the state bucket."""

    key: str
    kind: ObjectKind
    body: bytes = field(repr=False)
    content_type: str


MAX_TITLE = 300
MAX_BODY = 8_000
MAX_URL = 2_000

_Text = StringConstraints(strip_whitespace=True)


class Subject(BaseModel):
    """The subject of an event. Texts are cut to these limits when they are read (`bounded`).

    `place`: the repository or project. `url`: the page for people. `body`: the comment or description, empty if
    unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    place: Annotated[str, _Text, Field(min_length=1, max_length=MAX_TITLE)]
    title: Annotated[str, _Text, Field(min_length=1, max_length=MAX_TITLE)]
    url: Annotated[str, Field(max_length=MAX_URL)] = ""
    actor: Annotated[str, Field(max_length=MAX_TITLE)] = ""
    body: Annotated[str, Field(max_length=MAX_BODY, repr=False)] = ""


def bounded(text: str, most: int) -> str:
    """The text in a form that Postgres can store, cut to `most` characters; a cut text ends with an ellipsis (D12)."""
    clean = text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8").strip()
    return clean if len(clean) <= most else clean[: most - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event from a source. Its id does not depend on how it arrived (LIFE-6, LIFE-7)."""

    event_id: str
    source: Source
    kind: EventKind
    happened_at: datetime
    subject: Subject


@dataclass(frozen=True, slots=True)
class Event:
    """One row of `lifecycle_events`."""

    event_id: str
    source: Source
    kind: EventKind
    arrived_by: Arrival
    subject: Subject
    happened_at: datetime
    status: EventStatus
    reason: str | None
    created_at: datetime
    dispatched_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Task:
    """One row of `lifecycle_tasks`."""

    task_id: str
    event_id: str
    kind: EventKind
    subject: Subject
    status: TaskStatus
    outcome: TaskOutcome | None
    attempt: int
    run_id: UUID | None
    waits_for_person: bool
    answer: str | None
    last_failure: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def run_key(self) -> str:
        """The idempotency key of the current attempt's run: a repeated submit returns the same run."""
        return f"{self.task_id}-{self.attempt}"

    @property
    def session_id(self) -> str:
        """The trace id that all runs of the task share."""
        return self.task_id


@dataclass(frozen=True, slots=True)
class Message:
    """One row of `lifecycle_messages`."""

    message_id: str
    kind: MessageKind
    task_id: str | None
    body: str
    status: MessageStatus
    attempts: int
    last_error: str | None
    created_at: datetime
    sent_at: datetime | None


@dataclass(frozen=True, slots=True)
class Thread:
    """The Slack thread of a task's messages (LIFE-10)."""

    channel: str
    thread_ts: str


def result_key(task_id: str) -> str:
    """The key of the result (LIFE-3)."""
    return f"state/results/{task_id}.json"


def raw_key(task_id: str) -> str:
    """The key of the run's unchanged result document."""
    return f"state/results/{task_id}-raw.json"


def run_id_key(task_id: str) -> str:
    """The key of the file with the run's id."""
    return f"state/results/{task_id}-soldier-id"


def session_id_key(task_id: str) -> str:
    """The key of the file with the session id, with which another run can continue."""
    return f"state/results/{task_id}-session-id"


def prompt_key(task_id: str) -> str:
    """The key of the prompt (LIFE-4)."""
    return f"state/prompts/{task_id}.md"


def session_log_key(run_id: str) -> str:
    """The key of the log of a run's session."""
    return f"logs/sessions/{run_id}.json"


def session_error_key(run_id: str) -> str:
    """The key of the error text of a run's session; the file is empty if there was no error."""
    return f"logs/sessions/{run_id}.err"
