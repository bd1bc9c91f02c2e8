"""The retention classes of this context (LIFE-1 … LIFE-6)."""

from typing import LiteralString

from dpp.platform.db.retention import RetentionClass
from dpp.platform.db.retention_table import Blocker, OwnedObjects, TableClass


def _objects(name: str, period: str, where: LiteralString, *, whole_moments: bool = False) -> TableClass:
    """Objects of tasks that ended, with their rows."""
    return TableClass(
        name,
        period,
        table="lifecycle_objects",
        time="created_at",
        key="object_key",
        where=where,
        points_at=("tasks",),
        blocked_by=(Blocker("lifecycle_tasks", "task_id", own="task_id", where="status <> 'COMPLETED'"),),
        owned_objects=OwnedObjects("bytes", "lifecycle_deletions"),
        whole_moments=whole_moments,
    )


# All results of a task, and both files of a session, are registered at the same time. They are deleted in one batch, so
# that no reader gets only some of them (LIFE-12).
RESULTS = _objects("results", "results_days", "kind = 'RESULT'", whole_moments=True)
PROMPTS = _objects("prompts", "prompts_days", "kind = 'PROMPT'")
SESSION_LOGS = _objects("session_logs", "session_logs_days", "kind = 'SESSION_LOG'", whole_moments=True)
MESSAGES = TableClass(
    "messages", "queue_days", table="lifecycle_messages", time="sent_at", key="message_id", points_at=("tasks",)
)
TASKS = TableClass(
    "tasks",
    "queue_days",
    table="lifecycle_tasks",
    time="ended_at",
    key="task_id",
    points_at=("events",),
    blocked_by=(
        Blocker("lifecycle_objects", "task_id"),
        Blocker("lifecycle_messages", "task_id", where="status = 'PENDING'"),
        Blocker("lifecycle_threads", "task_id"),
        Blocker("lifecycle_awaiting", "task_id"),
    ),
)
EVENTS = TableClass(
    "events",
    "queue_days",
    table="lifecycle_events",
    time="ended_at",
    key="event_id",
    points_at=("seen",),
    blocked_by=(Blocker("lifecycle_tasks", "event_id"),),
)
SEEN = TableClass(
    "seen",
    "seen_days",
    table="lifecycle_seen",
    time="seen_at",
    key="event_id",
    blocked_by=(Blocker("lifecycle_events", "event_id"),),
)
CLEANUPS = TableClass("cleanups", "cleanups_days", table="cleanups", time="ended_at", key="cleanup_id", key_type="uuid")
CLASSES: tuple[RetentionClass, ...] = (RESULTS, PROMPTS, SESSION_LOGS, MESSAGES, TASKS, EVENTS, SEEN, CLEANUPS)
OBJECT_CLASSES = (RESULTS.name, PROMPTS.name, SESSION_LOGS.name)
