"""What the submit function reads from its environment."""

from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings


class RunsSubmitSettings(PostgresSettings, RedisSettings, QueueSettings):
    """Rows, budgets and the run queue."""
