"""What the ops cycle reads from its environment."""

from dpp.platform.config import DeadLetterSettings, PostgresSettings, QueueSettings, RedisSettings
from dpp.tickets.config import ReaperSettings, ReportsSettings


class OpsCycleSettings(
    PostgresSettings, RedisSettings, QueueSettings, DeadLetterSettings, ReportsSettings, ReaperSettings
):
    """Rows, budgets, the run queue with its dead letters, the reports bucket and the reaper's rules."""
