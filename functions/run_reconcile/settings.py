"""What reconcile reads from its environment."""

from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings, StorageSettings


class RunReconcileSettings(PostgresSettings, RedisSettings, QueueSettings, StorageSettings):
    """Rows, budgets, the run queue (to send again what was never sent) and the results bucket."""
