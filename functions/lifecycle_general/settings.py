"""What the general reads from his environment."""

from dpp.lifecycle.config import StateSettings, TaskSettings, WakesEnvoy, WakesKing
from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings, StorageSettings


class LifecycleGeneralSettings(
    PostgresSettings,
    RedisSettings,
    QueueSettings,
    StorageSettings,
    StateSettings,
    TaskSettings,
    WakesKing,
    WakesEnvoy,
):
    """Rows, budgets, the run queue, runs' results, the tasks' own bucket and budget, and whom he wakes."""
