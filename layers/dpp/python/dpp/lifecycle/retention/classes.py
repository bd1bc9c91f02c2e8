"""What of this context is kept for a period and then deleted (LIFE-1 … LIFE-6); its rows name its objects."""

from dpp.platform.db.retention import QueriedClass, RetentionClass
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.lifecycle.retention", "classes.sql")


def _class(name: str, period: str, *points_at: str) -> RetentionClass:
    return QueriedClass(name, period, QUERIES, points_at)


OBJECT_CLASSES = ("results", "prompts", "session_logs")
CLASSES: tuple[RetentionClass, ...] = (
    _class("results", "results_days", "tasks"),
    _class("prompts", "prompts_days", "tasks"),
    _class("session_logs", "session_logs_days", "tasks"),
    _class("messages", "queue_days", "tasks"),
    _class("tasks", "queue_days", "events"),
    _class("events", "queue_days", "seen"),
    _class("seen", "seen_days"),
    _class("cleanups", "cleanups_days"),
)
