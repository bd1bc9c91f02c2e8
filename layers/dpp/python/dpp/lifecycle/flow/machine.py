"""The states of events, tasks and messages (LIFE-1, LIFE-2, LIFE-5); docs/lifecycle.md is generated from them."""

from enum import StrEnum

from dpp.platform.state_machine import StateMachine, Transition


class EventStatus(StrEnum):
    """An event's state. Retention treats FAILED like COMPLETED."""

    PENDING = "PENDING"
    DISPATCHED = "DISPATCHED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class TaskStatus(StrEnum):
    """A task's state. The result is in its outcome."""

    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"


class TaskOutcome(StrEnum):
    """The result of a completed task."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class MessageStatus(StrEnum):
    """A message's state."""

    PENDING = "PENDING"
    SENT = "SENT"


_SENTINEL, _KING, _GENERAL = "the sentinel (poller)", "the king (dispatcher)", "the general (runner)"

_E = EventStatus
EVENT_MACHINE = StateMachine(
    (
        Transition(None, _E.PENDING, "insert_event", f"{_SENTINEL}, the webhook", "the event is new"),
        Transition(_E.PENDING, _E.DISPATCHED, "dispatch_event", _KING, "its task is created in the same transaction"),
        Transition(_E.DISPATCHED, _E.COMPLETED, "end_events", _KING, "its task succeeded"),
        Transition(_E.DISPATCHED, _E.FAILED, "end_events", _KING, "its task failed after all attempts"),
        Transition(_E.DISPATCHED, _E.FAILED, "fail_orphans", _KING, "its task no longer exists"),
    ),
    terminal=frozenset({_E.COMPLETED, _E.FAILED}),
)
_T = TaskStatus
TASK_MACHINE = StateMachine(
    (
        Transition(None, _T.PENDING, "insert_task", _KING, "its event is dispatched"),
        Transition(_T.PENDING, _T.IN_PROGRESS, "take_on_tasks", _GENERAL, "it is the oldest pending task"),
        Transition(_T.IN_PROGRESS, _T.IN_PROGRESS, "next_attempt", _GENERAL, "its run failed, and attempts are left"),
        Transition(_T.IN_PROGRESS, _T.IN_PROGRESS, "ask_person", _GENERAL, "a person must answer"),
        Transition(_T.IN_PROGRESS, _T.IN_PROGRESS, "take_answer", "a person", "the answer arrived"),
        Transition(_T.IN_PROGRESS, _T.COMPLETED, "complete_task", _GENERAL, "its result is stored"),
    ),
    terminal=frozenset({_T.COMPLETED}),
)
_M = MessageStatus
MESSAGE_MACHINE = StateMachine(
    (
        Transition(
            None,
            _M.PENDING,
            "insert_message",
            f"{_KING}, {_GENERAL}, the chamberlain (cleaner)",
            "a thread opens, a task asks or ends, or a role is silent",
        ),
        Transition(_M.PENDING, _M.SENT, "mark_sent", "the envoy (notifier)", "Slack accepted it"),
    ),
    terminal=frozenset({_M.SENT}),
)
