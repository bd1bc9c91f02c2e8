"""What the read function reads from its environment."""

from dpp.platform.config import PostgresSettings, RedisSettings, StorageSettings


class RunsReadSettings(PostgresSettings, RedisSettings, StorageSettings):
    """Rows, budgets and the results bucket."""
