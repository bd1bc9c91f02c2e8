"""What the health function reads from its environment."""

from dpp.platform.config import PostgresSettings, QueueSettings, RedisSettings, StorageSettings


class HealthSettings(PostgresSettings, RedisSettings, QueueSettings, StorageSettings):
    """Everything that `/readyz` asks (RUN-32)."""
