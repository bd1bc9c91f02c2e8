"""What the worker reads from its environment."""

from dpp.platform.config import (
    DecisionEngineSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)


class RunWorkerSettings(
    PostgresSettings, RedisSettings, QueueSettings, StorageSettings, DecisionEngineSettings
):
    """Rows, budgets, the run queue (to extend visibility), the results bucket and the decision engine."""
