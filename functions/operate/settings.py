"""What the operator commands read from their environment."""

from dpp.platform.config import (
    DeadLetterSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)
from dpp.tickets.config import ReaperSettings, ReportsSettings


class OperateSettings(
    PostgresSettings,
    RedisSettings,
    QueueSettings,
    DeadLetterSettings,
    StorageSettings,
    ReportsSettings,
    ReaperSettings,
):
    """Rows, budgets, the run queue with its dead letters, both buckets, the reaper's rules: every command's at once."""
