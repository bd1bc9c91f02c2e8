"""What the operator commands read from their environment."""

from dpp.platform.config import (
    DeadLetterSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)


class OperateSettings(PostgresSettings, RedisSettings, QueueSettings, DeadLetterSettings, StorageSettings):
    """Rows, budgets, the run queue with its dead letters, and the results bucket: every command's at once."""
