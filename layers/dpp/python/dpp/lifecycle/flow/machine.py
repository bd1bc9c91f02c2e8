"""The states of events, tasks and messages, as tables (LIFE-1, LIFE-2, LIFE-5); docs/lifecycle.md draws them."""

from dataclasses import dataclass
from enum import StrEnum


class EventStatus(StrEnum):
    """An event's state. FAILED is COMPLETED for retention."""

    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class TaskStatus(StrEnum):
    """A task's state; what came of it is its outcome."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


class TaskOutcome(StrEnum):
    """What came of a task."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class MessageStatus(StrEnum):
    """A message's state."""

    PENDING = "PENDING"
    SENT = "SENT"


@dataclass(frozen=True, slots=True)
class Way:
    """One transition. `source` None: how it begins; `by`: who makes it."""

    source: str | None
    target: str
    by: str
    why: str


EVENT_WAYS = (
    Way(None, EventStatus.PENDING, "sentinel, webhook", "taken in"),
    Way(EventStatus.PENDING, EventStatus.DISPATCHED, "king", "a task is made of it"),
    Way(EventStatus.DISPATCHED, EventStatus.COMPLETED, "king", "its task succeeded"),
    Way(EventStatus.DISPATCHED, EventStatus.FAILED, "king", "its task failed, after all tries"),
)
TASK_WAYS = (
    Way(None, TaskStatus.PENDING, "king", "made of an event"),
    Way(TaskStatus.PENDING, TaskStatus.IN_PROGRESS, "general", "taken on"),
    Way(TaskStatus.IN_PROGRESS, TaskStatus.IN_PROGRESS, "general", "another soldier, or a person is asked"),
    Way(TaskStatus.IN_PROGRESS, TaskStatus.IN_PROGRESS, "person", "answered"),
    Way(TaskStatus.IN_PROGRESS, TaskStatus.COMPLETED, "general", "its result is stored"),
)
MESSAGE_WAYS = (
    Way(None, MessageStatus.PENDING, "king, general, chamberlain", "written"),
    Way(MessageStatus.PENDING, MessageStatus.SENT, "envoy", "delivered"),
)
