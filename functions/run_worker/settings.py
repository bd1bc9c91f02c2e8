"""What the worker reads from its environment."""

from dpp.platform.config import (
    DecisionEngineSettings,
    OutsidePackSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)


class RunWorkerSettings(
    PostgresSettings,
    RedisSettings,
    QueueSettings,
    StorageSettings,
    DecisionEngineSettings,
    OutsidePackSettings,
):
    """Rows, budgets, the run queue (to extend visibility), the results bucket, and what the packs need."""
