"""What the read function reads from its environment."""

from dpp.platform.config import PostgresSettings, RedisSettings, SigningSettings, StorageSettings


class RunsReadSettings(PostgresSettings, RedisSettings, StorageSettings, SigningSettings):
    """Rows, budgets, the results bucket and the role that signs its URLs."""
