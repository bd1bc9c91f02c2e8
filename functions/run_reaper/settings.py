"""What the reaper reads from its environment."""

from dpp.platform.config import PostgresSettings, RedisSettings


class RunReaperSettings(PostgresSettings, RedisSettings):
    """Rows and budgets."""
